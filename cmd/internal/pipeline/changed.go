package pipeline

import "cmp"

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
