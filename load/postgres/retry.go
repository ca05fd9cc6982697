package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Error codes of the server (SQLSTATE).
const (
	codeCancelled      = "57014"
	codeUnique         = "23505"
	codeUndefinedTable = "42P01"
	codeNoSchema       = "3F000"
	codeOtherColumns   = "42P16"
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

// markDiskFull marks errors of a full disk on the server, so that callers can recognize them. A full disk can even make
// it impossible to open a session, for which the server writes a file. The server's error then says only that this file
// could not be written.
func markDiskFull(err error) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if ok && (e.Code == codeDiskFull || e.Code == codeInternal && strings.Contains(e.Message, "could not write init file")) {
		return fmt.Errorf("the server's disk is full: %w: %w", syscall.ENOSPC, err)
	}
	return err
}

// explainWideRow explains the error for a row that is too large, and how to make it smaller. A row must fit in a page,
// which holds 8,160 bytes. Postgres stores long values elsewhere, but each of them still takes 18 bytes in the row.
func explainWideRow(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == codeLimit && strings.Contains(e.Message, "row is too big") {
		return fmt.Errorf("a row has more values than fit in the 8,160 bytes of a Postgres row; set `max_columns: %d` on the stream to store the other values in %s: %w", Columns, schemas.ColRest, err)
	}
	return err
}

// passing lists the codes, or their first digits, of errors whose causes pass without help: too many connections, a
// server that stops or starts, a lost connection, a conflict with another transaction, a timeout of a lock, a session
// or a transaction, or a change that another session makes to the same table. For the last, see transient.
var passing = []string{
	"53300", "57P01", "57P02", "57P03", "57P05", "40001", "40P01", codeLockTimeout, "08", "25P03", "25P04", codeInternal,
}

// connectionLost reports whether the connection is lost, so that the outcome is unknown.
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

// retryable is an error after which an immediate retry may succeed, because the cause is gone.
type retryable struct{ error }

// Unwrap returns the error.
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

const (
	minPause = 50 * time.Millisecond // between two attempts
	maxPause = 5 * time.Second
	attempts = 20
)

// retry calls the function f, and calls it again after transient errors, for up to [Options].Wait, with growing
// pauses. // Invariant 15
func (d *DB) retry(ctx context.Context, f func() error) error {
	return d.retryExcluding(ctx, new(time.Duration), f)
}

// retryExcluding is like retry, but does not count the time that f has waited for tables that other sources change.
// The function f adds this time to queued.
func (d *DB) retryExcluding(ctx context.Context, queued *time.Duration, f func() error) error {
	begun, before := time.Now(), *queued
	pause := minPause
	for n := 1; ; n++ {
		err := f()
		if !transient(err) || ctx.Err() != nil {
			return err
		}
		if n == attempts || time.Since(begun)-(*queued-before)+pause > d.o.Wait {
			return fmt.Errorf("%w (%d attempts)", err, n)
		}
		d.o.Log.Debug("postgres: retry", "attempt", n, "error", err)
		if code(err) == codeLockTimeout {
			d.terminateStalled(ctx)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)): // a random pause: two waiting sessions must not keep trying at the same time
		case <-ctx.Done():
			return ctx.Err()
		}
		pause = min(2*pause, maxPause)
	}
}

// withGrace returns a context that ends when the duration d has passed after the end of ctx.
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
