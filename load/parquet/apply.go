package parquet

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Begin implements [load.Destination].
func (l *Lake) Begin(ctx context.Context, k state.Key, from state.Cursor, p load.Pass) (load.Tx, error) {
	f := l.folder(k)
	x := &tx{builder: newBuilder(l, f, k, nil, p)}
	x.from = from
	var err error
	if x.base, err = x.head(ctx); err != nil {
		return nil, fmt.Errorf("begin %s: %w", k.Stream, err)
	}
	return x, nil
}

// Write implements [load.Tx].
func (x *tx) Write(_ context.Context, t schemas.Table, b arrow.RecordBatch) error {
	if x.done {
		return fmt.Errorf("write %s: transaction is over", t.Name)
	}
	var err error
	if x.pending, err = load.Stage(x.pending, t, b); err != nil {
		return fmt.Errorf("write %s: %w", t.Name, err)
	}
	return nil
}

// start locks the stream and opens the next generation. It returns [state.ErrMoved] if another commit came first.
func (x *tx) start(ctx context.Context) error {
	if x.next != nil {
		return nil
	}
	for _, step := range []func() error{
		func() error { return x.lock(ctx) },
		func() error { return x.lake.step("begin") },
		func() error { return x.checkFence(ctx) },
		func() error { return x.prepare(ctx) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	x.seen = newSeenRows(x.folder.passOf(x.spec.Run))
	return nil
}

// prepare opens the next generation. It also removes outdated files, and checks that the files in use exist. If it is
// expensive to list files, only the first transaction of a run does this.
func (x *tx) prepare(ctx context.Context) error {
	f := x.folder
	known := f.store.costly() && f.checkedRun == x.spec.Run
	f.checkedRun = ""
	steps := []func(context.Context) error{x.tidy, x.open, x.checkForeign}
	if known {
		steps = []func(context.Context) error{x.open}
	}
	for _, step := range steps {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	f.checkedRun = x.spec.Run
	return nil
}

// Apply implements [load.Tx].
func (x *tx) Apply(ctx context.Context, s load.Sweep) (out load.Outcome, err error) {
	switch {
	case x.done:
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
	m := &merge{builder: &x.builder, seen: &x.seen, out: &out}
	if err := m.fit(ctx, pending); err != nil {
		return out, err
	}
	load.SetSyncedAt(pending, x.when)
	if err := m.rows(ctx, pending); err != nil {
		return out, err
	}
	return out, m.sweep(ctx, s)
}
