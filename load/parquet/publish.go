package parquet

import (
	"context"
	"errors"
	"slices"

	"github.com/penstock-data/penstock/state"
)

// commit makes rows, tables and cursor durable in one step. // Invariants 1, 2
func (x *tx) commit(ctx context.Context, next state.Cursor) error {
	x.next.Cursor, x.next.Run, x.next.At = string(next), x.spec.Run, x.when
	if err := x.lake.step("state"); err != nil {
		return err
	}
	idle, err := x.idle()
	if err != nil {
		return err
	}
	steps := []func() error{ctx.Err, func() error { return x.draft.move(ctx, x.moved()) }}
	if !idle {
		steps = x.generation(ctx)
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	x.done = true
	x.seen.remember(x.next)
	x.folder.keys.prune(x.next)
	if idle {
		err = x.draft.discard()
	} else {
		x.collect(ctx)
	}
	return errors.Join(err, x.lake.step("committed"), x.unlock())
}

func (x *tx) generation(ctx context.Context) []func() error {
	return []func() error{
		func() error { return x.compact(ctx) },
		func() error { return x.writeInternal(ctx, x.next.Cursor) },
		func() error { return x.writeEmpty(ctx) },
		func() error { return x.lake.step("link") },
		ctx.Err,
		func() error { x.outdate(); return x.draft.assemble(ctx, x.next) },
		func() error { return x.lake.step("precommit") },
		ctx.Err,
		func() error { return x.publish(ctx) },
	}
}

// outdate removes outdated generations from the manifest. Their files are removed after the commit: see [tx.collect].
func (x *builder) outdate() {
	m := x.next
	all := append(slices.Clone(m.Kept), generation{Sequence: m.Sequence, At: m.At})
	n := 0
	for n+x.lake.o.Keep < len(all) && m.At.Sub(all[n+1].At) >= x.lake.o.KeepFor {
		n++
	}
	m.Kept = m.Kept[n:]
	if _, tabled := x.draft.(*tableGeneration); tabled {
		m.Kept = expired(m.Kept, x.lake.o.KeepFor)
	}
}

// collect removes the files of outdated generations. It is not part of the commit: if it fails, the next commit tries
// again.
func (x *tx) collect(ctx context.Context) {
	if x.folder.store.costly() {
		return // tidy removes them, in the first transaction of the next run
	}
	if err := x.folder.store.tidy(ctx, x.next); err != nil {
		x.lake.o.Log.Warn("cannot remove outdated generations", "folder", x.folder.store.where(), "error", err)
	}
}
