package sqlmerge

import (
	"context"
	"errors"
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
	carried *carried        // nil: none yet
	lost    bool            // some carried keys are lost, for example because another pass began
	order   order           // of the keys of committed rows
	fresh   map[string]bool // by table: whether its last rows were all new
}

// tx is a transaction. It collects batches until its first Apply. From then on it holds the database's transaction.
type tx struct {
	db   *Store
	b    Backend
	key  state.Key
	from state.Cursor
	at   position // position of the stream when the transaction began
	of   load.Pass
	when time.Time // time of the commit, set when the database's transaction has begun
	pass *pass

	open    func(context.Context) (Session, error) // begins the database's transaction
	pending []*load.Staged                         // in the order of their first batch
	s       Session                                // nil before the first Apply
	c       *catalog                               // as this transaction sees it
	carried *carried                               // pass.carried plus this transaction's keys
	order   order                                  // pass.order plus this transaction's keys
	lost    bool                                   // some carried keys are lost
	swept   bool                                   // the transaction has made the sweep that ends a pass: one without given keys
	fresh   map[string]bool                        // see pass.fresh
	dropped []string                               // tables of carried keys that this transaction has dropped
	kept    bool                                   // the temporary table of kept rows was made
	stamp   time.Time                              // time of this transaction's changes to tables, see record
	changed map[string]bool                        // tables in which this transaction has deleted or updated rows
	timed   bool                                   // the field when is later than the times of all existing rows; see advanceTime
	owner   *load.Owner                            // owner of the stream's table, if it must be recorded
	was     *load.Owner                            // the previous owner
	failed  error                                  // error of an Apply, after which the transaction cannot commit
	over    bool
}

// Begin opens a transaction; see [load.Destination].
func (d *Store) Begin(ctx context.Context, k state.Key, from state.Cursor, p load.Pass) (load.Tx, error) {
	return d.begin(ctx, k, from, p, d.b.Write)
}

// begin opens a transaction. The function open begins the database's transaction.
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
	ps := d.passes[k]
	if ps == nil || ps.run != p.Run {
		next := &pass{run: p.Run, fresh: map[string]bool{}}
		if ps != nil {
			d.dropLater(ps.carried)
			ps.lost, ps.carried = true, nil
			next.lost = p.Run < ps.run // a later pass ran in between, so the keys of this pass are lost
		}
		ps = next
		d.passes[k] = ps
	}
	return d.newTx(k, from, at, p, ps, open), nil
}

func (d *Store) newTx(k state.Key, from state.Cursor, at position, p load.Pass, ps *pass, open func(context.Context) (Session, error)) *tx {
	return &tx{db: d, b: d.b, key: k, from: from, at: at, of: p, pass: ps, open: open, fresh: map[string]bool{}}
}

// again returns a new transaction that begins from the same position.
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
func (x *tx) start(ctx context.Context, s load.Sweep) error {
	if x.s != nil {
		if x.db.pooled != nil { // other transactions may have changed tables since the last Apply
			x.c = x.db.newCatalog(x.s)
		}
		return nil
	}
	if err := x.take(ctx); err != nil {
		return err
	}
	x.carried, x.order = x.db.resume(x.pass)
	var names []string
	for _, p := range x.pending {
		names = append(names, p.Name)
	}
	for _, name := range []string{s.Table, x.of.Claim.Table} {
		if name != "" {
			names = append(names, name)
		}
	}
	if len(names) > 0 || x.db.pooled == nil {
		names = append(names, load.State.Name, load.Changes.Name)
	}
	if err := x.c.look(ctx, names...); err != nil { // all in one query
		return err
	}
	return x.checkPosition(ctx)
}

// take begins the database's transaction, and drops temporary tables that are no longer needed.
func (x *tx) take(ctx context.Context) error {
	if err := x.b.Step("begin"); err != nil {
		return err
	}
	s, err := x.open(ctx)
	if err != nil {
		return err
	}
	x.s, x.c = s, x.db.newCatalog(s)
	return x.dropCarried(ctx)
}

// checkPosition checks that the stream's position is still the one that the transaction began from. // Invariant 13
func (x *tx) checkPosition(ctx context.Context) error {
	var now position
	if s, ok := x.s.(PooledSession); ok {
		now.cursor, now.sequence, now.moved = s.Position()
	} else {
		var err error
		if now, err = x.db.readPosition(ctx, x.c, x.key); err != nil {
			return fmt.Errorf("read cursor: %w", err)
		}
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
	if err := x.start(ctx, s); err != nil {
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
	x.swept = x.swept || s.Table != "" && s.Keys == nil
	return out, m.sweep(s)
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
	to := position{cursor: next, sequence: x.at.sequence + 1, moved: x.when.UnixMicro()}
	for _, step := range []func() error{
		func() error { return x.keepCarried(ctx) },
		func() error { return x.b.Step("state") },
		func() error { return x.writePosition(ctx, to) },
		func() error { return x.b.Step("precommit") },
		func() error { return x.settle(ctx, x.s.Commit(ctx), to) },
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
	x.advance()
	x.db.mu.Unlock()
	return x.b.Step("committed")
}

// ErrUnanswered is returned by [Session].Commit if the answer to the commit is lost, and the lost transaction has ended.
var ErrUnanswered = errors.New("the answer to the commit is lost")

// settleGrace is how long settle may take, even if the run is being stopped. // Invariant 15
const settleGrace = 5 * time.Second

// settle finds out whether a commit without an answer succeeded: then the stream has the new position.
// Invariants 1, 2
func (x *tx) settle(ctx context.Context, failed error, to position) error {
	if !errors.Is(failed, ErrUnanswered) {
		return failed
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleGrace)
	defer cancel()
	committed := false
	err := x.b.Read(ctx, func(r Reader) error {
		now, err := x.db.readPosition(ctx, x.db.newCatalog(r), x.key)
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

// writePosition stores the new position in place of the one that was stored when the transaction began.
func (x *tx) writePosition(ctx context.Context, to position) error {
	if err := x.ownTables(ctx); err != nil {
		return err
	}
	if err := x.recordOwner(ctx); err != nil {
		return err
	}
	table := x.b.Place(load.State.Name)
	n, err := x.s.Affect(ctx, fmt.Sprintf(`UPDATE %s SET "cursor" = %s, sequence = %d, updated_at = %s WHERE %s AND "cursor" = %s AND sequence = %d`,
		table, x.b.Literal(string(to.cursor)), to.sequence, x.b.Timestamp(x.when), x.db.whereKey(x.key), x.b.Literal(string(x.from)), x.at.sequence))
	switch {
	case err != nil:
		return fmt.Errorf("move cursor: %w", err)
	case n == 1:
		return nil
	case x.at.sequence > 0:
		return state.ErrMoved
	}
	names := load.Names(x.ownTable(load.State).Columns)
	values := []string{
		x.b.Literal(x.key.Pipeline), x.b.Literal(x.key.Stream), x.b.Literal(string(to.cursor)), fmt.Sprint(to.sequence), x.b.Timestamp(x.when),
	}
	if x.key.Source != "" {
		values = append([]string{x.b.Literal(x.key.Source)}, values...)
	}
	return x.s.Exec(ctx, fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s)", table, Idents(names), strings.Join(values, ", ")))
}

// ownTables creates the tables that the destination writes itself, if they do not exist.
func (x *tx) ownTables(ctx context.Context) error {
	if x.db.pooled != nil {
		return nil
	}
	for _, t := range []schemas.Table{load.State, load.Changes} {
		if x.c.live[t.Name] != nil {
			continue
		}
		p := load.Plan{Table: x.ownTable(t), Create: true}
		if err := x.s.Alter(ctx, Alteration{Plan: p}); err != nil {
			return fmt.Errorf("create %s: %w", t.Name, err)
		}
		x.c.altered(p)
	}
	return nil
}

// ownTable returns one of penstock's own tables, with a source column if the transaction has a source.
func (x *tx) ownTable(t schemas.Table) schemas.Table {
	if x.key.Source == "" {
		return t
	}
	return load.ShareTable(t)
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
	x.db.droppable = append(x.db.droppable, x.dropped...)
	x.db.mu.Unlock()
	if err := x.s.Rollback(); err != nil {
		return fmt.Errorf("roll back %s: %w", x.key.Stream, err)
	}
	return nil
}

func (x *tx) end() {
	if x.s != nil {
		x.s.End()
		x.s = nil
	}
}
