package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// tx is a transaction. It collects batches until its first Apply, and then holds a session. It keeps the applied
// batches until the commit, up to maxHeld bytes. If the connection is lost, it repeats the work on another one with
// these batches.
type tx struct {
	db       *DB
	key      state.Key
	from     state.Cursor
	position position // position of the stream when the transaction began
	of       load.Pass
	pass     *pass

	pending   []*load.Staged // tables in the order of their first batch
	log       []*applied
	held      int64 // size in bytes of the batches in log
	failed    error // error of an Apply; the transaction can no longer commit
	over      bool
	queued    time.Duration // time spent waiting for other sources that change the same tables
	keepalive keepalive

	attempt
}

// attempt is what a transaction has on one connection.
type attempt struct {
	s          *session // nil before the first Apply
	carried    *carried // pass.carried and the keys of this transaction
	keeps      bool     // this attempt has created the table of carried keys in the schema
	order      order    // pass.order and the keys of this transaction
	kept       bool     // the temporary table [keptRows] exists
	fresh      map[string]bool
	changeTime time.Time // time under which changes of tables are recorded
	commitTime time.Time // time of the commit
	// timed says that commitTime is later than the times of all existing rows: see advanceTime.
	timed         bool
	owner         *load.Owner // new owner of the stream's table; nil: unchanged
	previousOwner *load.Owner // previous owner
	written       map[string]int64
	rejects       [][]any // rows for [load.Rejects]
}

// applied is one call of Apply.
type applied struct {
	staged   []*load.Staged
	sweep    load.Sweep
	outcome  load.Outcome
	returned bool // the outcome was returned to the caller of Apply
	done     bool // the work was done on this connection
	released bool // the batches were released
}

// maxHeld limits the bytes of batches that a transaction keeps for repeating its work. A larger transaction fails if
// its connection is lost. The run then continues from the cursor. // Invariant 6
const maxHeld = 48 << 20

// Begin implements [load.Destination].
func (d *DB) Begin(ctx context.Context, k state.Key, from state.Cursor, p load.Pass) (load.Tx, error) {
	at, err := d.positionAt(ctx, k, from)
	if err != nil {
		return nil, fmt.Errorf("begin %s: %w", k.Stream, err)
	}
	return &tx{db: d, key: k, from: from, position: at, of: p, pass: d.passOf(k, p.Run)}, nil
}

// Write implements [load.Tx].
func (x *tx) Write(_ context.Context, t schemas.Table, b arrow.RecordBatch) (err error) {
	if x.over {
		return fmt.Errorf("write %s: transaction is over", t.Name)
	}
	b = load.WithSource(t, b, x.key.Source)
	defer b.Release()
	if x.pending, err = load.Stage(x.pending, t, b); err != nil {
		return fmt.Errorf("write %s: %w", t.Name, err)
	}
	return nil
}

// Apply implements [load.Tx].
func (x *tx) Apply(ctx context.Context, s load.Sweep) (out load.Outcome, err error) {
	defer x.reserveSession()()
	return x.applyAll(ctx, s)
}

// applyAll applies everything that was written since the last Apply.
func (x *tx) applyAll(ctx context.Context, s load.Sweep) (out load.Outcome, err error) {
	switch {
	case x.over:
		return out, fmt.Errorf("apply %s: transaction is over", x.key.Stream)
	case x.failed != nil:
		return out, x.failed
	}
	a := &applied{staged: x.pending, sweep: s}
	for _, p := range x.pending {
		x.held += sizeOf(p)
	}
	x.log, x.pending = append(x.log, a), nil
	if err := x.retry(ctx, func() error { return x.catchUp(ctx) }); err != nil {
		x.failed = fmt.Errorf("apply %s: %w", x.key.Stream, err)
		return out, x.failed
	}
	a.returned = true
	x.releaseLarge()
	return a.outcome, nil
}

// retry calls f. After a transient error, it calls f again on another connection. Exception: if the transaction has
// released some of its batches, the error is final.
func (x *tx) retry(ctx context.Context, f func() error) error {
	return x.db.retryExcluding(ctx, &x.queued, func() error {
		err := f()
		if err == nil {
			return nil
		}
		x.resetAttempt()
		for _, a := range x.log {
			if a.released && transient(err) {
				return fmt.Errorf("the transaction is too large to repeat: %w", permanent{err})
			}
		}
		return err
	})
}

// permanent wraps an error so that retry does not treat it as transient.
type permanent struct{ err error }

// Error returns the text of the wrapped error.
func (p permanent) Error() string { return p.err.Error() }

// catchUp does all work that was not yet done on this connection. On a new connection, this is all work of the
// transaction.
func (x *tx) catchUp(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := x.start(ctx); err != nil {
		return err
	}
	for _, a := range x.log {
		if a.done {
			continue
		}
		out, err := x.apply(ctx, a)
		if err != nil {
			return err
		}
		if a.returned && !same(out, a.outcome) {
			return errors.New("the connection was lost, and repeating the work on another one had a different outcome: another session has changed the table")
		}
		if a.returned {
			releaseKeys(out)
		} else {
			a.outcome = out
		}
		a.done = true
	}
	return nil
}

// same reports whether two outcomes are equal. It ignores the keys that they list.
func same(a, b load.Outcome) bool {
	return a.Written == b.Written && a.Inserted == b.Inserted && a.Unchanged == b.Unchanged && a.Deduplicated == b.Deduplicated &&
		a.Revived == b.Revived && a.Alive == b.Alive && a.Missing == b.Missing && a.Known == b.Known && a.Deleted == b.Deleted
}

func releaseKeys(o load.Outcome) {
	for _, b := range o.Keys {
		b.Release()
	}
}

// releaseLarge releases the batches of all calls of Apply if they are too large to keep.
func (x *tx) releaseLarge() {
	if x.held <= maxHeld {
		return
	}
	for _, a := range x.log {
		a.release()
		a.released = true
	}
	x.held = 0
}

// sizeOf returns the size of a table's batches in bytes.
func sizeOf(s *load.Staged) int64 {
	n := int64(0)
	for _, b := range s.Batches {
		for _, c := range b.Columns() {
			n += int64(c.Data().SizeInBytes())
		}
	}
	return n
}

func (a *applied) release() {
	for _, p := range a.staged {
		p.Release()
	}
	a.staged = nil
}

// start acquires a session and begins a database transaction. It returns [state.ErrMoved] if the stream's cursor has
// changed.
func (x *tx) start(ctx context.Context) error {
	if x.s != nil {
		return nil
	}
	if err := x.db.step("begin"); err != nil {
		return err
	}
	if err := x.db.prepare(ctx, x.key.Source); err != nil {
		return err
	}
	s, err := x.db.acquire(ctx)
	if err != nil {
		return err
	}
	c, order := x.db.resume(x.pass)
	x.attempt = attempt{s: s, carried: c, order: order, fresh: map[string]bool{}, written: map[string]int64{}}
	if err := x.db.step("fence"); err != nil {
		return err
	}
	now, err := x.db.fence(ctx, s, x.key)
	if err != nil {
		return fmt.Errorf("lock cursor: %w", x.db.recheckTables(err))
	}
	if !now.at(x.position) || x.position.cursor != x.from {
		return state.ErrMoved
	}
	x.commitTime = load.CommitTime(x.of.Time(), now.moved)
	return x.claim(ctx)
}

// apply does the work of one Apply on this connection.
func (x *tx) apply(ctx context.Context, a *applied) (out load.Outcome, err error) {
	if len(a.staged) == 0 && a.sweep.Table == "" {
		return out, nil
	}
	m := &merge{tx: x, ctx: ctx, out: &out}
	for _, step := range []func() error{
		func() error { return m.fit(a.staged, a.sweep.Table) },
		func() error { return m.advanceTime(a.staged) },
		func() error { load.SetSyncedAt(a.staged, x.commitTime); return nil },
		func() error { return m.rows(a.staged) },
		func() error { return m.sweep(a.sweep) },
		m.writeRejects,
	} {
		if err := step(); err != nil {
			releaseKeys(out)
			return out, err
		}
	}
	return out, nil
}

// Commit implements [load.Tx].
func (x *tx) Commit(ctx context.Context, next state.Cursor) error {
	defer x.reserveSession()()
	if x.over {
		return fmt.Errorf("commit %s: transaction is over", x.key.Stream)
	}
	defer x.end()
	if len(x.pending) > 0 {
		if _, err := x.applyAll(ctx, load.Sweep{}); err != nil {
			return fmt.Errorf("commit: %w", err)
		}
	}
	if x.failed != nil {
		return x.failed
	}
	to := position{cursor: next, sequence: x.position.sequence + 1}
	if err := x.retry(ctx, func() error { return x.commit(ctx, to) }); err != nil {
		return fmt.Errorf("commit %s: %w", x.key.Stream, err)
	}
	return nil
}

// commit makes rows, tables and cursor durable in one step. // Invariants 1, 2
func (x *tx) commit(ctx context.Context, to position) error {
	for _, step := range []func() error{
		func() error { return x.catchUp(ctx) },
		func() error { return x.keepCarried(ctx) },
		func() error { to.moved = x.commitTime; return x.db.step("state") },
		func() error { return x.recordOwner(ctx) },
		func() error { return x.db.writePosition(ctx, x.s, x.key, x.position, to) },
		func() error { return x.db.step("precommit") },
		ctx.Err,
		func() error { return x.sendCommit(ctx, to) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	x.over = true
	x.db.cachePosition(x.key, to)
	x.db.cacheClaim(x.key, claimed{x.of.Claim, to})
	x.finish(ctx)
	return x.db.step("committed")
}

// commitGrace is how long a COMMIT may continue after its context has ended. Until the server answers, the outcome is
// unknown.
const commitGrace = 5 * time.Second

// sendCommit sends COMMIT. If the answer is lost, it looks up the outcome in the database.
func (x *tx) sendCommit(ctx context.Context, to position) error {
	late, release := withGrace(ctx, commitGrace)
	defer release()
	tag, err := x.s.exec(late, "COMMIT")
	if err == nil && tag.String() != "COMMIT" { // the server has rolled back
		return fmt.Errorf("the server answered %s", tag)
	}
	if err == nil {
		x.db.advance(x.pass, x.order, x.carried, x.swept())
		return nil
	}
	if !connectionLost(err) && late.Err() == nil {
		return err
	}
	carried, order := x.carried, x.order
	x.resetAttempt()
	committed, now, serr := x.db.commitOutcome(late, x.key, to)
	switch {
	case serr != nil:
		return fmt.Errorf("the answer to COMMIT was lost, and its outcome is unknown: %w", errors.Join(permanent{err}, permanent{serr}))
	case committed:
		x.db.advance(x.pass, order, carried, x.swept())
		return nil
	case !now.at(x.position):
		return state.ErrMoved
	}
	return err
}

// Rollback implements [load.Tx].
func (x *tx) Rollback() error {
	defer x.reserveSession()()
	x.end()
	return nil
}

// end discards everything that is not committed.
func (x *tx) end() {
	if !x.over {
		x.resetAttempt()
		x.db.dropPosition(x.key) // the failure may come from an outdated position
	}
	x.over = true
	for _, p := range x.pending {
		p.Release()
	}
	for _, a := range x.log {
		a.release()
	}
	x.pending, x.log = nil, nil
}

// resetAttempt discards the work of this connection.
func (x *tx) resetAttempt() {
	s := x.s
	x.attempt = attempt{}
	for _, a := range x.log {
		a.done = false
	}
	if s == nil {
		return
	}
	s.rollback()
	s.release()
}

// finish runs after a commit: it updates statistics, drops tables of carried keys, and releases the session.
func (x *tx) finish(ctx context.Context) {
	if x.s == nil { // the commit succeeded, but the connection is lost
		return
	}
	x.db.recordFresh(x.pass, x.fresh)
	s, written, own, look := x.s, x.written, x.carried, x.keeps
	x.attempt = attempt{}
	x.db.analyze(ctx, s, written)
	if look || x.db.isStale(x.key) {
		x.db.findLeftovers(ctx, s, x.key, own)
	}
	x.db.dropGarbage(ctx, s)
	s.release()
}
