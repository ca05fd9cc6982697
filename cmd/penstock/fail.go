package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state"
)

// The exit codes that users may rely on. After a signal, the exit code is that of signalCode.
const (
	exitDone    = 0
	exitFailed  = 1
	exitUsage   = 2
	exitPartial = 75
)

// hintFull is the hint for a full disk.
const hintFull = "the disk is full: free some space and run again; committed data is safe"

// hintSignIn is the hint for a sign-in that has ended.
const hintSignIn = "sign in with `penstock login`; committed data is safe"

// failure is an error for the user: what went wrong, what to do next, and the exit code. If err is nil, only the
// exit code is left to report, because the verb has already printed everything.
type failure struct {
	err  error
	hint string
	code int
}

// Error returns what went wrong, or the exit code if err is nil.
func (f *failure) Error() string {
	if f.err == nil {
		return fmt.Sprintf("exit %d", f.code)
	}
	return f.err.Error()
}

// Unwrap returns what went wrong.
func (f *failure) Unwrap() error { return f.err }

// usage returns a failure of the command line or the configuration.
func usage(hint, format string, args ...any) error {
	return &failure{err: fmt.Errorf(format, args...), hint: hint, code: exitUsage}
}

// hinted adds a hint to err. The exit code still depends on the kind of error.
func hinted(err error, hint string) error {
	if err == nil {
		return nil
	}
	return &failure{err: err, hint: hint}
}

// exit returns the error of a verb that has already printed everything.
func exit(code int) error {
	if code == exitDone {
		return nil
	}
	return &failure{code: code}
}

// stopped is the cause of a context that a signal cancelled. It wraps the cause that [pipeline.Stop] returned, which
// a run checks for.
type stopped struct {
	signal os.Signal
	cause  error
}

// Error names the signal.
func (s *stopped) Error() string { return "stopped by " + s.signal.String() }

// Unwrap returns the cause of pipeline.Stop.
func (s *stopped) Unwrap() error { return s.cause }

// codeOf returns the exit code for the error of a verb. // Invariant 14
func codeOf(ctx context.Context, err error) int {
	if err == nil {
		return exitDone
	}
	if f, ok := errors.AsType[*failure](err); ok && f.code != 0 {
		return f.code
	}
	if s, ok := errors.AsType[*stopped](context.Cause(ctx)); ok {
		return signalCode(s.signal)
	}
	if _, ok := errors.AsType[config.Faults](err); ok {
		return exitUsage
	}
	if errors.Is(err, state.ErrLocked) {
		return exitPartial
	}
	if e, ok := errors.AsType[*wire.Error](err); ok && e.Class == wire.Throttled {
		return exitPartial
	}
	return exitFailed
}

// printError prints err, one line per fault, and then the hint.
func (a *app) printError(err error) {
	f, ok := errors.AsType[*failure](err)
	if ok && f.err == nil {
		return
	}
	w := a.err
	hint := ""
	_, unprinted := errors.AsType[*outputError](err)
	switch {
	case ok && f.hint != "":
		hint = f.hint
	case errors.Is(err, state.ErrLocked):
		hint = "wait for the other process or stop it, then run again; nothing was changed"
	case errors.Is(err, syscall.ENOSPC) && !unprinted:
		hint = hintFull
	}
	if a.started && a.logFormat == "json" {
		for line := range strings.Lines(err.Error()) {
			a.log.Error(strings.TrimSpace(line))
		}
		if hint != "" {
			a.log.Info(hint)
		}
		return
	}
	for line := range strings.Lines(printable(err.Error(), true)) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			fmt.Fprintf(w, "penstock: %s\n", line)
		}
	}
	if hint != "" {
		_ = printHint(w, "", hint)
	}
}

// printHint prints a hint, each line behind indent.
func printHint(w io.Writer, indent, hint string) error {
	_, err := fmt.Fprintf(w, "%shint: %s\n", indent, strings.ReplaceAll(hint, "\n", "\n"+indent+"  "))
	return err
}

// printable escapes control characters, so that text is safe for a terminal and a log. If lines is true, it keeps
// newlines.
func printable(s string, lines bool) string {
	clean := func(r rune) bool {
		return r < ' ' && !(lines && r == '\n') || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
	}
	if !strings.ContainsFunc(s, clean) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case !clean(r):
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteByte(' ')
		default:
			fmt.Fprintf(&b, `\x%02x`, r)
		}
	}
	return b.String()
}
