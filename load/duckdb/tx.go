//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// pass is what this process remembers of one pass over a stream.
type pass struct {
	run     string
	carried *carried // nil: none yet
	lost    bool     // the carried keys are lost, because the engine was closed or another pass began
}

// tx is a transaction. It collects batches until its first Apply. From then on it keeps the file attached.
type tx struct {
	db   *DB
	key  state.Key
	from state.Cursor
	at   position // position of the stream when the transaction began
	of   load.Pass
	when time.Time // time of the commit, set once the file is attached
	pass *pass

	pending  []*load.Staged // in the order of their first batch
	s        *session       // nil before the first Apply
	release  func()
	carried  *carried       // pass.carried plus this transaction's keys
	kept     bool           // the temporary table of kept rows was made
	recorder changeRecorder // records this transaction's changes to tables
	ddl      bool
	changed  map[string]bool // tables in which this transaction has deleted or updated rows
	timed    bool            // the field when is later than the times of all existing rows; see advanceTime
	owner    *load.Owner     // owner of the stream's table, if it must be recorded
	was      *load.Owner     // the previous owner
	failed   error           // error of an Apply, after which the transaction cannot commit
	over     bool
}

// Begin implements [load.Destination].
func (d *DB) Begin(ctx context.Context, k state.Key, from state.Cursor, p load.Pass) (load.Tx, error) {
	d.mu.Lock()
	at, known := d.positions[k]
	d.mu.Unlock()
	if !known || at.cursor != from {
		var err error
		if at, err = d.position(ctx, k); err != nil {
			return nil, fmt.Errorf("begin: %w", err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	ps := d.passes[k]
	if ps == nil || ps.run != p.Run {
		next := &pass{run: p.Run}
		if ps != nil {
			d.dropLater(ps.carried)
			ps.lost, ps.carried = true, nil
			next.lost = p.Run < ps.run // a later pass ran in between, so the keys of this pass are lost
		}
		ps = next
		d.passes[k] = ps
	}
	return &tx{db: d, key: k, from: from, at: at, of: p, pass: ps}, nil
}

// Write implements [load.Tx].
func (x *tx) Write(_ context.Context, t schemas.Table, b arrow.RecordBatch) error {
	if x.over {
		return fmt.Errorf("write %s: transaction is over", t.Name)
	}
	var err error
	b = load.WithSource(t, b, x.key.Source)
	defer b.Release()
	if x.pending, err = load.Stage(x.pending, t, b); err != nil {
		return fmt.Errorf("write %s: %w", t.Name, err)
	}
	return nil
}

// start attaches the file and begins the database transaction. It returns an error if the stream's cursor has
// changed.
func (x *tx) start(ctx context.Context) error {
	if x.s != nil {
		return nil
	}
	if err := x.take(ctx); err != nil {
		return err
	}
	x.db.mu.Lock()
	x.carried = x.pass.carried
	x.db.mu.Unlock()
	return x.checkPosition(ctx)
}

// take waits until the process's other transactions on the file have ended. Then it attaches the file and begins a
// database transaction.
func (x *tx) take(ctx context.Context) error {
	select {
	case x.db.writer <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	e, release, err := x.db.acquire(ctx, writing)
	if err != nil {
		<-x.db.writer
		return err
	}
	x.s, x.release = e.write, func() { release(); <-x.db.writer }
	x.recorder = changeRecorder{s: e.write, of: x.of}
	if err := x.dropCarried(ctx); err != nil {
		return err
	}
	if err := x.db.step("begin"); err != nil {
		return err
	}
	return x.s.exec(ctx, "BEGIN TRANSACTION")
}

// checkPosition checks that the stream's position is still the one that the transaction began from. // Invariant 13
func (x *tx) checkPosition(ctx context.Context) error {
	live, err := x.s.engine.objects(ctx, x.s, false)
	if err != nil {
		return fmt.Errorf("read the database's catalog: %w", err)
	}
	if err := sharing(live, x.key); err != nil {
		return err
	}
	now, err := readPosition(ctx, x.s, x.key)
	if err != nil {
		return fmt.Errorf("read cursor: %w", err)
	}
	if now != x.at || x.at.cursor != x.from {
		return state.ErrMoved
	}
	x.when = load.CommitTime(x.of.Time(), time.UnixMicro(now.moved))
	return x.claim(ctx)
}

// Apply implements [load.Tx].
func (x *tx) Apply(ctx context.Context, s load.Sweep) (out load.Outcome, err error) {
	switch {
	case x.over:
		return out, fmt.Errorf("apply %s: transaction is over", x.key.Stream)
	case x.failed != nil:
		return out, x.failed
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("apply %s: %w", x.key.Stream, err)
			x.failed = err
		}
	}()
	if err := x.start(ctx); err != nil {
		return out, err
	}
	pending := x.pending
	x.pending = nil
	defer func() {
		for _, p := range pending {
			p.Release()
		}
	}()
	if len(pending) == 0 && s.Table == "" {
		return out, nil
	}
	m := &merge{tx: x, ctx: ctx, out: &out}
	if err := m.fit(pending, s); err != nil {
		return out, err
	}
	if err := m.advanceTime(pending); err != nil {
		return out, err
	}
	load.SetSyncedAt(pending, x.when)
	if err := m.rows(pending); err != nil {
		return out, err
	}
	return out, m.sweep(s)
}

// Commit implements [load.Tx].
func (x *tx) Commit(ctx context.Context, next state.Cursor) error {
	if x.over {
		return fmt.Errorf("commit %s: transaction is over", x.key.Stream)
	}
	defer x.Rollback()
	if _, err := x.Apply(ctx, load.Sweep{}); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	if err := x.commit(ctx, next); err != nil {
		return fmt.Errorf("commit %s: %w", x.key.Stream, err)
	}
	return nil
}

// commit makes rows, tables and cursor durable in one step. // Invariants 1, 2
func (x *tx) commit(ctx context.Context, next state.Cursor) error {
	to := position{cursor: next, sequence: x.at.sequence + 1, moved: x.when.UnixMicro()}
	for _, step := range []func() error{
		func() error { return x.db.step("state") },
		func() error { return x.writePosition(ctx, to) },
		func() error { return x.db.step("precommit") },
		func() error { return x.s.exec(ctx, "COMMIT") },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	defer x.finish()
	x.db.mu.Lock()
	x.db.positions[x.key] = to
	if x.of.Claim.Table != "" {
		x.db.claimed[x.key] = claimed{x.of.Claim, to}
	}
	if x.pass.carried != x.carried {
		x.db.dropLater(x.pass.carried)
		x.pass.carried = x.carried
	}
	x.db.mu.Unlock()
	return x.db.step("committed")
}

// finish releases the file after the commit, and notes whether the next detach must merge the log.
func (x *tx) finish() {
	x.over = true
	if x.ddl {
		x.s.engine.forgetObjects()
	}
	x.db.window.changed = x.db.window.changed || x.ddl || x.db.logSize() > longLog
	x.end()
}

// writePosition stores the new position in place of the one that was stored when the transaction began.
func (x *tx) writePosition(ctx context.Context, to position) error {
	if err := x.ownTables(ctx); err != nil {
		return err
	}
	if err := x.recordOwner(ctx); err != nil {
		return err
	}
	table := place(load.State.Name)
	n, err := x.s.affect(ctx, fmt.Sprintf("DELETE FROM %s WHERE %s AND cursor = %s AND sequence = %d",
		table, whereKey(x.key), literal(string(x.from)), x.at.sequence))
	if err != nil {
		return fmt.Errorf("move cursor: %w", err)
	}
	if n != min(x.at.sequence, 1) { // no row before the first commit, then one
		return state.ErrMoved
	}
	names := load.Names(x.ownTable(load.State).Columns)
	owner := ""
	if x.key.Source != "" {
		owner = literal(x.key.Source) + ", "
	}
	return x.s.exec(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s%s, %s, %s, %d, %s)", table, idents(names), owner,
		literal(x.key.Pipeline), literal(x.key.Stream), literal(string(to.cursor)), to.sequence, timestamp(x.when)))
}

// ownTables creates the tables that the destination writes itself, if they do not exist.
func (x *tx) ownTables(ctx context.Context) error {
	live, err := x.s.engine.objects(ctx, x.s, x.ddl)
	if err != nil {
		return fmt.Errorf("read the database's catalog: %w", err)
	}
	for _, t := range []schemas.Table{load.State, load.Changes} {
		if live[t.Name] != nil {
			continue
		}
		if err := x.s.exec(ctx, createSQL(x.ownTable(t))); err != nil {
			return fmt.Errorf("create %s: %w", t.Name, err)
		}
		x.ddl = true
	}
	return nil
}

// Rollback implements [load.Tx].
func (x *tx) Rollback() error {
	if x.over {
		return nil
	}
	x.over = true
	for _, p := range x.pending {
		p.Release()
	}
	x.pending = nil
	if x.s == nil {
		return nil
	}
	defer x.end()
	x.db.mu.Lock()
	delete(x.db.positions, x.key) // read it again next time, in case an outdated position caused the failure
	x.db.mu.Unlock()
	if err := x.s.exec(context.Background(), "ROLLBACK"); err != nil && !missingTransaction(err) {
		x.s.engine.broken = true
		return fmt.Errorf("roll back %s: %w", x.key.Stream, err)
	}
	return nil
}

// end releases the file.
func (x *tx) end() {
	if x.s != nil {
		x.s = nil
		x.release()
	}
}

// timestamp returns t as an SQL literal.
func timestamp(t time.Time) string {
	return "TIMESTAMPTZ " + literal(t.UTC().Format("2006-01-02 15:04:05.000000+00"))
}

// missingTransaction reports whether there was nothing to roll back.
func missingTransaction(err error) bool {
	return strings.Contains(err.Error(), "no transaction is active")
}
