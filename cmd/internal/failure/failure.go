// Package failure defines the errors that penstock shows to users: what went wrong, a hint about what to do next, and
// the exit code.
package failure

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state"
)

// The exit codes that users may rely on. After a signal, [SignalCode] returns the exit code.
const (
	ExitDone    = 0
	ExitFailed  = 1
	ExitUsage   = 2
	ExitPartial = 75
)

// Error is an error for the user: what went wrong, what to do next, and the exit code. If Err is nil, only the exit
// code is left to report, because the command has already printed everything.
type Error struct {
	Err  error
	Hint string
	Code int
}

// Error returns what went wrong, or the exit code if Err is nil.
func (f *Error) Error() string {
	if f.Err == nil {
		return fmt.Sprintf("exit %d", f.Code)
	}
	return f.Err.Error()
}

// Unwrap returns what went wrong.
func (f *Error) Unwrap() error { return f.Err }

// Usage returns an error of the command line or the configuration.
func Usage(hint, format string, args ...any) error {
	return &Error{Err: fmt.Errorf(format, args...), Hint: hint, Code: ExitUsage}
}

// Hinted adds a hint to err. The exit code still depends on the kind of error.
func Hinted(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &Error{Err: err, Hint: hint}
}

// Exit returns the error of a command that has already printed everything.
func Exit(code int) error {
	if code == ExitDone {
		return nil
	}
	return &Error{Code: code}
}

// Stopped is the cause of a context that a signal cancelled. It wraps the cause that [pipeline.Stop] returned. A run
// checks for that cause.
type Stopped struct {
	Signal os.Signal
	Cause  error
}

// Error names the signal.
func (s *Stopped) Error() string { return "stopped by " + s.Signal.String() }

// Unwrap returns the cause of pipeline.Stop.
func (s *Stopped) Unwrap() error { return s.Cause }

// CodeOf returns the exit code for the error of a command. // Invariant 14
func CodeOf(ctx context.Context, err error) int {
	if err == nil {
		return ExitDone
	}
	if f, ok := errors.AsType[*Error](err); ok && f.Code != 0 {
		return f.Code
	}
	if s, ok := errors.AsType[*Stopped](context.Cause(ctx)); ok {
		return SignalCode(s.Signal)
	}
	if _, ok := errors.AsType[config.Faults](err); ok {
		return ExitUsage
	}
	if errors.Is(err, state.ErrLocked) {
		return ExitPartial
	}
	if e, ok := errors.AsType[*wire.Error](err); ok && e.Class == wire.Throttled {
		return ExitPartial
	}
	return ExitFailed
}

// SignalCode returns the exit code of a process that a signal ended.
func SignalCode(s os.Signal) int {
	if s == syscall.SIGTERM {
		return 143
	}
	return 130
}
