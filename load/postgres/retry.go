package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/pgerror"
	"github.com/penstock-data/penstock/state/retry"
)

// More error codes of the server; see [pgerror.Code].
const (
	codeCancelled  = "57014"
	codeUnique     = "23505"
	codeDefinition = "42P16" // invalid_table_definition
	codeNameTaken  = "42P07"
	codeDependent  = "2BP01"
	codeDiskFull   = "53100"
	codeLimit      = "54000"
)

// markDiskFull marks the error of a full disk on the server, so that callers can recognize it. The server writes a file
// for each new session. If the disk is full, the error may say no more than that this file could not be written.
func markDiskFull(err error) error {
	e, ok := errors.AsType[*pgconn.PgError](err)
	if ok && (e.Code == codeDiskFull || e.Code == pgerror.Internal && strings.Contains(e.Message, "could not write init file")) {
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

// retryable is an error whose cause is gone, so an immediate retry may succeed.
type retryable struct{ error }

// Unwrap returns the wrapped error.
func (a retryable) Unwrap() error { return a.error }

// transient reports whether a retry may succeed soon.
func transient(err error) bool {
	_, ok := errors.AsType[retryable](err)
	return ok || pgerror.Transient(err) && !errors.Is(err, state.ErrMoved)
}

// silentFor is how long a server must be unreachable before a warning says that penstock waits for it. Usually, a lost
// connection is replaced sooner.
const silentFor = 2 * time.Second

// outage says when to warn that a server does not answer: once, until it answers again. It is safe for concurrent use.
type outage struct {
	mu    sync.Mutex
	since time.Time // zero: the server answers
	told  bool
}

// record records the result of an attempt that began at the given time. It reports whether to warn now. Errors that are
// no lost or refused connection, such as a conflict with another session, are answers.
func (o *outage) record(begun time.Time, err error) (warn bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !pgerror.Disconnected(err) {
		o.since, o.told = time.Time{}, false
		return false
	}
	if o.since.IsZero() {
		o.since = time.Now()
		if _, dial := errors.AsType[*pgconn.ConnectError](err); dial {
			o.since = begun // a host that drops packets was already silent then
		}
	}
	if o.told || time.Since(o.since) < silentFor {
		return false
	}
	o.told = true
	return true
}

// retry calls f, and calls it again after transient errors, with growing pauses, for up to [Options].Wait.
// Invariant 15
func (p *pool) retry(ctx context.Context, f func() error) error {
	return p.retryExcluding(ctx, new(time.Duration), f)
}

// retryExcluding is like retry, but the limit does not include the time that f waits for other sources that change the
// same tables. The function f adds this time to queued.
func (p *pool) retryExcluding(ctx context.Context, queued *time.Duration, f func() error) error {
	// The waits are random, so that two sessions do not always try at the same time.
	policy := retry.Policy{First: 50 * time.Millisecond, Longest: 5 * time.Second, Jitter: 0.5, Attempts: 20, Total: p.o.Wait}
	for tries := policy.Begin(); ; {
		before, begun := *queued, time.Now()
		err := f()
		silent := ctx.Err() == nil && p.outage.record(begun, err)
		if !transient(err) || ctx.Err() != nil {
			return err
		}
		tries.Exclude(*queued - before)
		p.o.Log.Debug("postgres: transient error", "attempt", tries.Made()+1, "error", err)
		if silent {
			p.o.Log.Warn("the database does not answer; trying again", "for", p.o.Wait, "error", err)
		}
		if pgerror.Code(err) == pgerror.LockTimeout {
			p.terminateStalled(ctx)
		}
		switch again := tries.Again(ctx); {
		case ctx.Err() != nil:
			return ctx.Err()
		case !again:
			return fmt.Errorf("%w (%d attempts)", err, tries.Made())
		}
	}
}
