package pipeline

import (
	"fmt"
	"runtime/debug"
)

// PanicError reports a panic: see [Guard].
type PanicError struct {
	Where string // stream, or operation
	Value any
	Stack []byte // for debugging; not part of the text
}

// Error returns the stream or operation and the value of the panic, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("%s: panic: %v", e.Where, e.Value) }

// Guard calls f, and turns a panic into a [*PanicError]. So a panic ends one stream, and not the process.
func Guard(where string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Where: where, Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}
