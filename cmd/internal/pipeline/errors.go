package pipeline

import (
	"cmp"
	"fmt"

	"github.com/penstock-data/penstock/schemas"
)

// ChangedError reports that the source has changed since the rows of a stream were loaded. Only a person can decide
// what the change means, so the stream is held.
type ChangedError struct {
	Stream string
	Reason string
	Err    error // may be nil
}

// Error names the stream and the change.
func (e *ChangedError) Error() string {
	if e.Err == nil {
		return e.Stream + ": " + e.Reason
	}
	return e.Stream + ": " + e.Reason + ": " + e.Err.Error()
}

// Unwrap returns Err.
func (e *ChangedError) Unwrap() error { return e.Err }

func orNone(s string) string { return cmp.Or(s, "nothing") }

// BaseError is the error of a run in which the server answered all requests to one surface with 404. Then the base URL
// of the surface is probably wrong, not the paths of the streams.
type BaseError struct {
	Surface schemas.Surface
	Streams []string // names of the missing streams
	Err     error    // the server's answer for the first of these streams
}

// Error says how many streams the server did not find, and its answer for the first of them.
func (e *BaseError) Error() string {
	return fmt.Sprintf("surface %s: all %d streams are missing: %v", e.Surface, len(e.Streams), e.Err)
}

// Unwrap returns the answer for the first stream.
func (e *BaseError) Unwrap() error { return e.Err }

func baseErrors(err error) []*BaseError {
	switch e := err.(type) { //nolint:errorlint // this walks the tree of errors
	case *BaseError:
		return []*BaseError{e}
	case interface{ Unwrap() error }:
		return baseErrors(e.Unwrap())
	case interface{ Unwrap() []error }:
		var all []*BaseError
		for _, one := range e.Unwrap() {
			all = append(all, baseErrors(one)...)
		}
		return all
	}
	return nil
}

// HeldError reports that a stream was read to its end and now waits for a person. Missing rows were kept, or the table
// may lack records.
type HeldError struct {
	Reason  string
	Confirm bool     // a run with Options.ConfirmShrink deletes the missing rows
	Doubts  []string // doubts of package proof that apply, the gravest first
}

// Error returns the reason.
func (e *HeldError) Error() string { return e.Reason }

// UnstoredError reports that a stream was read to its end but is not complete.
type UnstoredError struct {
	Records int64 // records that no table could store and whose loss is not accepted
	All     bool  // none of the pass's records could be stored
}

// Error states how many records are missing.
func (e *UnstoredError) Error() string {
	if e.All {
		return fmt.Sprintf("none of %d records could be stored", e.Records)
	}
	if e.Records == 1 {
		return "1 record could not be stored"
	}
	return fmt.Sprintf("%d records could not be stored", e.Records)
}

// RangeError reports why a range of a stream cannot be read.
type RangeError struct{ Stream, Reason string }

// Error names the stream and the reason.
func (e *RangeError) Error() string {
	return e.Stream + ": cannot read a range of it: " + e.Reason
}

// notTriedError is the error of a stream for which no request was made, because requests for other streams of its
// surface have failed. It has no Unwrap method, because the wrapped error concerns the other streams.
type notTriedError struct {
	stream string
	err    error
}

// Error names the stream and the reason.
func (e *notTriedError) Error() string { return e.stream + ": not tried: " + e.err.Error() }
