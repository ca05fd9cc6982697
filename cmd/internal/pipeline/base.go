package pipeline

import (
	"fmt"

	"github.com/penstock-data/penstock/schemas"
)

// BaseError is the error of a run in which the server answered 404 for every stream of a surface. Then the base URL
// is probably wrong, not the paths of the streams.
type BaseError struct {
	Surface schemas.Surface
	Streams []string // names of the missing streams
	Err     error    // the server's answer for the first of them
}

// Error says how many streams the server did not find, and its answer to the first.
func (e *BaseError) Error() string {
	return fmt.Sprintf("surface %s: all %d streams are missing: %v", e.Surface, len(e.Streams), e.Err)
}

// Unwrap returns the answer to the first stream.
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
