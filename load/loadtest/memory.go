package loadtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Memory is the reference destination. It keeps its tables in maps, does everything in the simplest way, and is lost
// when the process ends. The suite compares other destinations with it. Tests of other packages use it instead of a
// real destination.
type Memory struct {
	*store
	step     func(string) error
	passes   map[state.Key]*pass
	surveyed map[state.Key]surveyed
	trims    load.TrimDays
}

type store struct {
	busy chan struct{} // holds one token while a transaction is between Apply and its end

	mu     sync.Mutex
	tables map[string]*table
	states map[state.Key]position
	stamp  time.Time
	owners map[string]load.Owner
	made   map[string]string
}

var (
	_ load.Destination = (*Memory)(nil)
	_ load.Surveyor    = (*Memory)(nil)
	_ load.Trimmer     = (*Memory)(nil)
)

type position struct {
	cursor   state.Cursor
	sequence int64
	moved    time.Time
}

// pass is what one process remembers of a pass, above all the keys of the records that the pass has found unchanged.
// The process need not remember the rows that the pass has written: these rows have the id of the pass in their run
// column.
type pass struct {
	run     string
	carried map[string]bool
	lost    bool
}

// NewMemory returns an empty destination. If the function step is not nil, it is called before each named step of a
// commit. If the function returns an error, the step fails.
func NewMemory(step func(string) error) *Memory {
	s := &store{
		busy: make(chan struct{}, 1), tables: map[string]*table{}, states: map[state.Key]position{},
		owners: map[string]load.Owner{}, made: map[string]string{},
	}
	return &Memory{store: s, step: step, passes: map[state.Key]*pass{}, surveyed: map[state.Key]surveyed{}}
}

// Reopen returns the destination as another process would open it. The tables and cursors are the same, but nothing
// is remembered about running passes.
func (m *Memory) Reopen(step func(string) error) *Memory {
	return &Memory{store: m.store, step: step, passes: map[state.Key]*pass{}, surveyed: map[state.Key]surveyed{}}
}

// Cursor implements [load.Destination].
func (m *Memory) Cursor(_ context.Context, k state.Key) (state.Cursor, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.states[k].cursor, nil
}

// Tables implements [load.Destination].
func (m *Memory) Tables(_ context.Context, name string) ([]schemas.Table, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []schemas.Table
	for _, n := range slices.Sorted(maps.Keys(m.tables)) {
		if n == name || strings.HasPrefix(n, name+"__") {
			out = append(out, m.tables[n].Table)
		}
	}
	return out, nil
}

// Rows returns the rows of a table, or none if it does not exist.
func (m *Memory) Rows(table string) []Row {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.tables[table]; t != nil {
		return slices.Clone(t.rows)
	}
	return nil
}

// Scan implements [load.Destination].
func (m *Memory) Scan(_ context.Context, table string, columns []string, each func(arrow.RecordBatch) error) error {
	m.mu.Lock()
	t := m.tables[table]
	m.mu.Unlock()
	if t == nil || len(t.rows) == 0 {
		return nil
	}
	asked, err := load.Select(t.Columns, columns)
	if err = errors.Join(err, t.asMade()); err != nil {
		return fmt.Errorf("scan %s: %w", table, err)
	}
	b, err := batchOf(asked, t.rows)
	if err != nil {
		return fmt.Errorf("scan %s: %w", table, err)
	}
	defer b.Release()
	return each(b)
}

// Begin implements [load.Destination].
func (m *Memory) Begin(_ context.Context, k state.Key, from state.Cursor, p load.Pass) (load.Tx, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ps := m.passes[k]
	if ps == nil || ps.run != p.Run {
		ps = &pass{run: p.Run, carried: map[string]bool{}, lost: ps != nil && p.Run < ps.run}
		m.passes[k] = ps
	}
	p.Whole = p.Whole && !ps.lost
	return &tx{
		m: m, key: k, from: from, sequence: m.states[k].sequence, moved: m.states[k].cursor != from,
		pass: p, carried: ps.carried, unchanged: map[string]bool{}, kept: map[string]int{},
	}, nil
}

// Close implements [load.Destination].
func (m *Memory) Close() error { return nil }

func (m *Memory) at(name string) error { return load.Step(m.step, name) }

type write struct {
	table    schemas.Table
	rows     []Row
	ordinals []int64
}

type tx struct {
	m        *Memory
	key      state.Key
	from     state.Cursor
	sequence int64
	moved    bool
	pass     load.Pass

	carried   map[string]bool
	unchanged map[string]bool
	kept      map[string]int // for tables without a key: number of rows that this transaction has read, by table and hash

	writes  []write
	tables  map[string]*table // copies; nil before the first Apply
	stamp   time.Time
	when    time.Time
	owner   *load.Owner
	was     *load.Owner
	refused error
	done    bool
}

// Write implements [load.Tx].
func (x *tx) Write(_ context.Context, t schemas.Table, b arrow.RecordBatch) error {
	if x.done {
		return errors.New("write: the transaction is over")
	}
	if err := load.WholeKey(t, b); err != nil {
		return fmt.Errorf("write %s: %w", t.Name, err)
	}
	t.Columns = b.Schema()
	w := write{table: t, rows: RowsOf(b)}
	before := 0
	for _, other := range x.writes {
		if other.table.Name == t.Name {
			before += len(other.rows)
		}
	}
	for i, r := range w.rows {
		w.ordinals = append(w.ordinals, ordinal(r, before+i))
		delete(r, schemas.ColOrdinal)
	}
	x.writes = append(x.writes, w)
	return nil
}

func (x *tx) begin(ctx context.Context) error {
	if x.tables != nil {
		return x.refused
	}
	if err := x.m.acquire(ctx); err != nil {
		return err
	}
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	x.tables = map[string]*table{}
	for n, t := range x.m.tables {
		x.tables[n] = t.copy()
	}
	x.stamp = x.m.later(x.pass.Time())
	x.when = load.CommitTime(x.pass.Time(), x.m.states[x.key].moved)
	x.refused = x.claim()
	return x.refused
}

// claim checks that the stream may write its table. The caller holds m.mu.
func (x *tx) claim() error {
	c := x.pass.Claim
	var have *load.Owner
	if o, ok := x.m.owners[c.Table]; ok {
		have = &o
	}
	owner, record, err := c.Owned(x.key, x.from, have)
	if err != nil || !record {
		return err
	}
	x.owner, x.was = &owner, have
	x.record([]load.Change{owner.Change(c.Table, have)})
	return nil
}

// resetPrevious resets the cursors of the stream that owned the table before. The caller holds m.mu.
func (x *tx) resetPrevious() {
	for k, at := range x.m.states {
		if x.was != nil && k.Pipeline == x.was.Pipeline && k.Stream == x.was.Stream && (k.Pipeline != x.key.Pipeline || k.Stream != x.key.Stream) {
			x.m.states[k] = position{sequence: at.sequence + 1, moved: at.moved}
		}
	}
}

// Drop drops a table by hand. If rowsAlone is set, it only deletes the rows.
func (m *Memory) Drop(name string, rowsAlone bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !rowsAlone {
		delete(m.tables, name)
		return
	}
	t := m.tables[name].copy()
	t.rows = nil
	m.tables[name] = t
}

// StreamState implements [load.Destination].
func (m *Memory) StreamState(_ context.Context, _ state.Key, name string) (load.StreamState, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := load.StreamState{Made: m.made[name]}
	if o, ok := m.owners[name]; ok {
		s.Owner = &o
	}
	for table := range m.made {
		if (table == name || strings.HasPrefix(table, name+"__")) && m.tables[table] == nil {
			s.Gone = append(s.Gone, table)
		}
	}
	if t := m.tables[name]; t != nil {
		s.Empty = len(t.rows) == 0
	}
	return s, nil
}

// acquire waits until no other transaction changes the store. The caller must release the store by receiving from busy.
func (s *store) acquire(ctx context.Context) error {
	select {
	case s.busy <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// later returns the time of a commit. The result is the parameter `now`. If that time is not after the last change, the
// result is a later time. The caller holds s.mu.
func (s *store) later(now time.Time) time.Time {
	return load.CommitTime(now, s.stamp)
}

// Commit implements [load.Tx].
func (x *tx) Commit(ctx context.Context, next state.Cursor) error {
	defer x.Rollback()
	if _, err := x.Apply(ctx, load.Sweep{}); err != nil {
		return err
	}
	if err := errors.Join(x.m.at("state"), x.m.at("precommit"), ctx.Err()); err != nil {
		return err
	}
	x.m.mu.Lock()
	defer x.m.mu.Unlock()
	p := x.m.states[x.key]
	if x.moved || p.cursor != x.from || p.sequence != x.sequence { // Invariant 13
		return fmt.Errorf("commit %s: %w", x.key.Stream, state.ErrMoved)
	}
	p = position{cursor: next, sequence: p.sequence + 1, moved: x.when}
	x.states(next, p.sequence)
	x.resetPrevious()
	x.m.states[x.key] = p
	for name := range x.tables {
		if x.m.tables[name] == nil {
			x.m.made[name] = x.pass.Run
		}
	}
	if x.owner != nil {
		x.m.owners[x.pass.Claim.Table] = *x.owner
	}
	x.m.tables = x.tables
	x.m.stamp = x.stamp
	maps.Copy(x.carried, x.unchanged)
	return nil
}

func (x *tx) states(next state.Cursor, sequence int64) {
	t := x.own(load.State)
	t.replace(Row{
		"pipeline": x.key.Pipeline, "stream": x.key.Stream, "cursor": string(next),
		"sequence": fmt.Sprint(sequence), "updated_at": instant(x.when),
	})
}

// Rollback implements [load.Tx].
func (x *tx) Rollback() error {
	if x.tables != nil && !x.done {
		<-x.m.busy
	}
	x.done, x.writes = true, nil
	return nil
}
