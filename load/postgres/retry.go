package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/retry"
)

// Error codes of the server (SQLSTATE).
const (
	codeCancelled      = "57014"
	codeUnique         = "23505"
	codeUndefinedTable = "42P01"
	codeNoSchema       = "3F000"
	codeOtherColumns   = "42P16"
	codeDependent      = "2BP01"
	codeLockTimeout    = "55P03"
	codeDiskFull       = "53100"
	codeLimit          = "54000"
	codeInternal       = "XX000"
)

// code returns the server's error code, or "" if the error is not from the server.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// markDiskFull marks the error of a full disk on the server, so that callers can recognize it. For a new session, the
// server writes a file. If the disk is full, its error may say only that this file could not be written.
func markDiskFull(err error) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if ok && (e.Code == codeDiskFull || e.Code == codeInternal && strings.Contains(e.Message, "could not write init file")) {
		return fmt.Errorf("the server's disk is full: %w: %w", syscall.ENOSPC, err)
	}
	return err
}

// explainWideRow adds an explanation to the error for a row that is too large. A row must fit into a page, which has
// room for 8,160 bytes. Postgres stores long values elsewhere, but each of them takes 18 bytes in the row.
func explainWideRow(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == codeLimit && strings.Contains(e.Message, "row is too big") {
		return fmt.Errorf("a row has more values than fit in the 8,160 bytes of a Postgres row; set `max_columns: %d` on the stream to store the other values in %s: %w", Columns, schemas.ColRest, err)
	}
	return err
}

// passing lists the codes of errors after which a retry may succeed, or the beginnings of codes. The causes are too
// many connections, a server that stops or starts, a lost connection, a conflict with another transaction, or a
// timeout. codeInternal is for a table that another session changes: see transient.
var passing = []string{
	"53300", "57P01", "57P02", "57P03", "57P05", "40001", "40P01", codeLockTimeout, "08", "25P03", "25P04", codeInternal,
}

// connectionLost reports whether the connection is lost. The outcome of the last request is then unknown.
func connectionLost(err error) bool {
	var (
		dial *pgconn.ConnectError
		nerr net.Error
	)
	switch c := code(err); {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return false
	case c != "":
		return strings.HasPrefix(c, "08") || strings.HasPrefix(c, "57P")
	case errors.As(err, &dial), errors.As(err, &nerr), errors.Is(err, pgconn.ErrConnClosed):
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) || pgconn.SafeToRetry(err)
}

// retryable is an error whose cause is gone, so that a retry may succeed at once.
type retryable struct{ error }

// Unwrap returns the wrapped error.
func (a retryable) Unwrap() error { return a.error }

// transient reports whether a retry may succeed soon.
func transient(err error) bool {
	if err == nil || errors.Is(err, state.ErrMoved) {
		return false
	}
	if _, ok := errors.AsType[retryable](err); ok {
		return true
	}
	for _, prefix := range passing {
		if c := code(err); c != "" && strings.HasPrefix(c, prefix) {
			return c != codeInternal || strings.Contains(err.Error(), "concurrently")
		}
	}
	return connectionLost(err)
}

// retry calls f, and calls it again after transient errors, with growing pauses, for up to [Options].Wait.
// Invariant 15
func (d *DB) retry(ctx context.Context, f func() error) error {
	return d.retryExcluding(ctx, new(time.Duration), f)
}

// retryExcluding is like retry, but does not count the time that f waits for other sources that change the same
// tables. f adds this time to queued.
func (d *DB) retryExcluding(ctx context.Context, queued *time.Duration, f func() error) error {
	// The waits are random, so that two sessions do not always try at the same time.
	policy := retry.Policy{First: 50 * time.Millisecond, Longest: 5 * time.Second, Jitter: 0.5, Attempts: 20, Total: d.o.Wait}
	for tries := policy.Begin(); ; {
		before := *queued
		err := f()
		if !transient(err) || ctx.Err() != nil {
			return err
		}
		tries.Exclude(*queued - before)
		d.o.Log.Debug("postgres: transient error", "attempt", tries.Made()+1, "error", err)
		if code(err) == codeLockTimeout {
			d.terminateStalled(ctx)
		}
		switch again := tries.Again(ctx); {
		case ctx.Err() != nil:
			return ctx.Err()
		case !again:
			return fmt.Errorf("%w (%d attempts)", err, tries.Made())
		}
	}
}

// withGrace returns a context that ends d after ctx has ended.
func withGrace(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(d):
			cancel()
		case <-late.Done():
		}
	})
	return late, func() { stop(); cancel() }
}
