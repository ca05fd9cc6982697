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

// What the server says, in the five characters of SQL.
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

// code is the server's own word for what went wrong; "" where it said nothing.
func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}

// full says of a full disk that it is full, and whose. The server writes a file
// even to let somebody in, and of that one it says no more than that it failed.
func full(err error) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if ok && (e.Code == codeDiskFull || e.Code == codeInternal && strings.Contains(e.Message, "could not write init file")) {
		return fmt.Errorf("the server's disk is full: %w: %w", syscall.ENOSPC, err)
	}
	return err
}

// wide says of a row that Postgres cannot store what keeps it small enough: it stores at
// least 18 bytes of each value in the row's page, which holds 8,160.
func wide(err error) error {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok && e.Code == codeLimit && strings.Contains(e.Message, "row is too big") {
		return fmt.Errorf("a row has more values than Postgres can store in its 8,160 bytes; `max_columns: 400` of the stream keeps the others in %s: %w", schemas.ColRest, err)
	}
	return err
}

// passing are what goes away by itself: too many connections, a server that
// shuts down or starts, a transaction that met another, a lock that somebody
// holds, a table that somebody makes at the same time.
var passing = []string{
	"53300", "57P01", "57P02", "57P03", "57P05", "40001", "40P01", codeLockTimeout, "08", "25P03", "25P04", codeInternal,
}

// lost reports whether the connection is gone, and with it the answer.
func lost(err error) bool {
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

// again is an error that has been seen to: the same may go well at once.
type again struct{ error }

// Unwrap returns the error that is worth another try.
func (a again) Unwrap() error { return a.error }

// transient reports whether the same may go well in a moment.
func transient(err error) bool {
	if err == nil || errors.Is(err, state.ErrMoved) {
		return false
	}
	if _, ok := errors.AsType[again](err); ok {
		return true
	}
	for _, prefix := range passing {
		if c := code(err); c != "" && strings.HasPrefix(c, prefix) {
			return c != codeInternal || strings.Contains(err.Error(), "concurrently")
		}
	}
	return lost(err)
}

const (
	minPause = 50 * time.Millisecond // between two attempts
	maxPause = 5 * time.Second
	attempts = 20
)

// retry does f again where what went wrong is transient, for as long as
// [Options].Wait, with growing pauses. // Invariant 15
func (d *DB) retry(ctx context.Context, f func() error) error {
	return d.retryBeside(ctx, new(time.Duration), f)
}

// retryBeside is retry, for as long as that beside what f adds to queued: the time
// in which it waited for its turn.
func (d *DB) retryBeside(ctx context.Context, queued *time.Duration, f func() error) error {
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
		d.o.Log.Debug("postgres: trying again", "attempt", n, "error", err)
		if code(err) == codeLockTimeout {
			d.unstall(ctx)
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)): // jitter, lest two wait in step
		case <-ctx.Done():
			return ctx.Err()
		}
		pause = min(2*pause, maxPause)
	}
}

// withGrace is ctx with its end put off by d.
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
