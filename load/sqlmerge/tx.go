package sqlmerge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// tx is a transaction of a [Store]. It collects batches until its first Apply, which begins the database's transaction.
type tx struct {
	db   *Store
	key  state.Key
	from state.Cursor
	at   position // position of the stream when the transaction began
	of   load.Pass
	pass *pass
	in   *scope

	open    func(context.Context) (Session, error) // begins the database's transaction
	pending []*load.Staged                         // in the order of their first batch
	sql     *statements                            // nil before the first Apply, and after the transaction
	c       *catalog                               // the tables, with the changes that this transaction has made
	seen    seen                                   // what the pass had seen, plus what this transaction has seen
	swept   bool                                   // the transaction has made the final sweep of a pass: a sweep without given keys
	dropped []string                               // tables of carried keys that this transaction has dropped
	timed   bool                                   // the commit's time is later than the times of all existing rows; see advanceTime
	owner   ownership
	failed  error // error of an Apply, after which the transaction cannot commit
	over    bool
}

// Begin opens a transaction; see [load.Destination].
func (d *Store) Begin(ctx context.Context, k state.Key, from state.Cursor, p load.Pass) (load.Tx, error) {
	return d.begin(ctx, k, from, p, d.b.Write)
}

// begin opens a transaction. The function open() begins the database's transaction.
func (d *Store) begin(ctx context.Context, k state.Key, from state.Cursor, p load.Pass, open func(context.Context) (Session, error)) (*tx, error) {
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
	return d.newTx(k, from, at, p, d.passOf(k, p.Run), open), nil
}

func (d *Store) newTx(k state.Key, from state.Cursor, at position, p load.Pass, ps *pass, open func(context.Context) (Session, error)) *tx {
	in := &scope{Dialect: d.b, traits: d.b.Traits(), source: k.Source, run: p.Run}
	return &tx{db: d, key: k, from: from, at: at, of: p, pass: ps, in: in, open: open}
}

// The method again() returns a new transaction that begins from the same position.
func (x *tx) again() *tx { return x.db.newTx(x.key, x.from, x.at, x.of, x.pass, x.open) }

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

// start begins the database's transaction. It returns an error if the stream's cursor has changed.
func (x *tx) start(ctx context.Context, swept string) error {
	if x.sql != nil {
		x.sql.ctx = ctx
		if x.db.pooled != nil { // other transactions may have changed tables since the last Apply
			x.c.reset()
		}
		return nil
	}
	if err := x.take(ctx); err != nil {
		return err
	}
	x.seen = x.db.resume(x.pass)
	names := tablesOf(x.pending, swept, x.of.Claim.Table)
	if len(names) > 0 || x.db.pooled == nil {
		names = append(names, load.State.Name, load.Changes.Name)
	}
	if err := x.c.look(ctx, names...); err != nil { // all in one query
		return err
	}
	return x.checkPosition(ctx)
}

// tablesOf returns the names of the staged tables, and the other names that are not "".
func tablesOf(pending []*load.Staged, others ...string) (names []string) {
	for _, p := range pending {
		names = append(names, p.Name)
	}
	return append(names, slices.DeleteFunc(others, func(name string) bool { return name == "" })...)
}

// take begins the database's transaction, and drops temporary tables that are no longer needed.
func (x *tx) take(ctx context.Context) error {
	if err := x.db.b.Step("begin"); err != nil {
		return err
	}
	s, err := x.open(ctx)
	if err != nil {
		return err
	}
	x.sql = &statements{Session: s, ctx: ctx, step: x.db.b.Step, changed: map[string]bool{}}
	x.c = newCatalog(x.db.b, s, x.of)
	x.dropped, err = x.db.dropCarried(ctx, s)
	return err
}

// checkPosition checks that the stream's position has not changed since the transaction began. // Invariant 13
func (x *tx) checkPosition(ctx context.Context) error {
	var now position
	if s, ok := x.sql.Session.(PooledSession); ok {
		now.cursor, now.sequence, now.moved = s.Position()
	} else {
		var err error
		if now, err = readPosition(ctx, x.c, x.key); err != nil {
			return fmt.Errorf("read cursor: %w", err)
		}
	}
	if now != x.at || x.at.cursor != x.from {
		return state.ErrMoved
	}
	x.in.when = load.CommitTime(x.of.Time(), time.UnixMicro(now.moved))
	return x.claim(ctx)
}

// claim returns an error if the stream must not write to its table. If this process has already made this check, and
// the stream's position has not changed since then, claim does nothing. // Invariant 13
func (x *tx) claim(ctx context.Context) (err error) {
	x.db.mu.Lock()
	last, ok := x.db.claimed[x.key]
	x.db.mu.Unlock()
	if x.of.Claim.Table == "" || ok && last == (claimed{x.of.Claim, x.at}) {
		return nil
	}
	x.owner, err = x.c.claim(ctx, x.sql.Session, x.key, x.from)
	return err
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
			err = fmt.Errorf("write%s: %w", load.OfStream(x.key.Stream), err)
			x.failed = err
		}
	}()
	if err := x.start(ctx, s.Table); err != nil {
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
	m := &merge{sql: x.sql, in: x.in, seen: &x.seen, out: &out, whole: x.of.Whole}
	if x.of.Log {
		m.log = &rowLog{sql: x.sql, key: x.key}
	}
	if m.tables, err = x.fit(ctx, pending, s.Table); err != nil {
		return out, err
	}
	if err := x.advanceTime(m, pending); err != nil {
		return out, err
	}
	load.SetSyncedAt(pending, x.in.when)
	if err := m.rows(pending); err != nil {
		return out, err
	}
	if s.Table != "" || x.of.Once { // a sweep finds rows by key, and after Once no transaction of the pass follows
		if err := m.addKeys(slices.SortedFunc(maps.Values(m.tables), byName)); err != nil {
			return out, err
		}
	}
	x.swept = x.swept || s.Table != "" && s.Keys == nil
	x.seen.lost = x.seen.lost || x.db.lost(x.pass)
	return out, m.sweep(s)
}

// fit creates and alters tables so that the staged rows fit. It returns all tables in the families of the staged tables
// and of the table to sweep.
func (x *tx) fit(ctx context.Context, pending []*load.Staged, swept string) (targets, error) {
	if err := x.sql.step("ddl"); err != nil {
		return nil, err
	}
	if err := x.ownTables(ctx); err != nil {
		return nil, err
	}
	if x.of.Log {
		pending = append(slices.Clip(pending), &load.Staged{Table: x.in.ownTable(load.RowChanges)})
	}
	names := tablesOf(pending, swept)
	if err := x.c.read(ctx, names...); err != nil {
		return nil, err
	}
	if x.key.Source != "" {
		if err := x.c.serialize(ctx, x.sql.Session, pending, swept, names); err != nil {
			return nil, err
		}
	}
	if err := x.c.checkSafe(names); err != nil {
		return nil, err
	}
	f := x.fitting(pending, names)
	if f.tables[swept] != nil {
		if _, err := x.c.table(swept); err != nil {
			return nil, err
		}
	}
	return f.tables, f.fit()
}

// The method fitting() returns the first part of an Apply, which creates and alters the tables in the families of the
// named tables.
func (x *tx) fitting(pending []*load.Staged, names []string) *fitting {
	return &fitting{
		sql: x.sql, c: x.c, in: x.in, seen: &x.seen, stream: x.key.Stream,
		pending: pending, tables: x.c.targets(x.in, names), altered: map[string]load.Plan{},
	}
}

// advanceTime makes the commit's time later than the times of all rows in the tables. It has to look at the rows only
// if the stream's row in _penstock_state is lost. Otherwise that row has the time of the last commit, and no table row
// has a later time.
func (x *tx) advanceTime(m *merge, pending []*load.Staged) error {
	if x.at.sequence > 0 || x.timed {
		return nil
	}
	x.timed = true
	last, err := m.lastTime(pending)
	x.in.when = load.CommitTime(x.in.when, last)
	return err
}

// Commit implements [load.Tx].
func (x *tx) Commit(ctx context.Context, next state.Cursor) error {
	if x.over {
		return fmt.Errorf("commit %s: transaction is over", x.key.Stream)
	}
	defer func() { _ = x.Rollback() }()
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
	to := position{cursor: next, sequence: x.at.sequence + 1, moved: x.in.when.UnixMicro()}
	for _, step := range []func() error{
		func() error { return x.hold(ctx) },
		func() error { return x.seen.keep(ctx, x.sql.Session, x.swept || x.of.Once) },
		func() error { return x.sql.step("state") },
		func() error { return x.writePosition(ctx, to) },
		func() error { return x.sql.step("precommit") },
		func() error { return x.settle(ctx, x.sql.Commit(ctx), to) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	defer x.finish()
	x.db.mu.Lock()
	x.db.positions[x.key] = to
	delete(x.db.surveyed, x.key)
	if x.of.Claim.Table != "" {
		x.db.claimed[x.key] = claimed{x.of.Claim, to}
	}
	x.db.advance(x.pass, x.seen)
	x.db.mu.Unlock()
	return x.db.b.Step("committed")
}

// ErrUnanswered is returned by [Session].Commit if the answer to the commit is lost. Commit returns it only after the
// transaction has ended on the server.
var ErrUnanswered = errors.New("the answer to the commit is lost")

// settleGrace is how long settle() may take, even if the run is being stopped. // Invariant 15
const settleGrace = 5 * time.Second

// settle finds out whether a commit succeeded although its answer was lost. It compares the stream's stored position
// with the position in the parameter `to`.
// Invariants 1, 2
func (x *tx) settle(ctx context.Context, failed error, to position) error {
	if !errors.Is(failed, ErrUnanswered) {
		return failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleGrace)
	defer cancel()
	committed := false
	err := x.db.b.Read(ctx, func(r Reader) error {
		now, err := readPosition(ctx, newCatalog(x.db.b, r, load.Pass{}), x.key)
		committed = now == to
		return err
	})
	if err == nil && committed {
		return nil
	}
	return errors.Join(failed, err)
}

// finish lets the next transaction begin after a commit.
func (x *tx) finish() {
	x.over = true
	x.end()
}

// ownTables creates the tables of cursors and of changes if they do not exist. A pooled backend creates them itself.
func (x *tx) ownTables(ctx context.Context) error {
	if x.db.pooled != nil {
		return nil
	}
	for _, t := range []schemas.Table{load.State, load.Changes} {
		if x.c.live[t.Name] != nil {
			continue
		}
		p := load.Plan{Table: x.in.ownTable(t), Create: true}
		if err := x.sql.Alter(ctx, Alteration{Plan: p}); err != nil {
			return fmt.Errorf("create %s: %w", t.Name, err)
		}
		x.c.altered(p)
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
	if x.sql == nil {
		return nil
	}
	defer x.end()
	x.db.mu.Lock()
	delete(x.db.surveyed, x.key)
	delete(x.db.positions, x.key) // the next transaction reads it again, in case an outdated position caused the failure
	x.db.droppable = append(x.db.droppable, x.dropped...)
	x.db.mu.Unlock()
	if err := x.sql.Rollback(); err != nil {
		return fmt.Errorf("roll back %s: %w", x.key.Stream, err)
	}
	return nil
}

func (x *tx) end() {
	if x.sql != nil {
		x.sql.End()
		x.sql = nil
	}
}
