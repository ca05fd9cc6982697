package parquet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-data/penstock/load"
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
		func() error { return x.writeCommon(ctx, x.next.Cursor) },
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

func (x *tx) idle() (bool, error) {
	if _, tabled := x.draft.(*tableGeneration); tabled {
		return false, nil // with a catalog, the cursor is in the stream's head table, so even a commit of only a cursor writes this table
	}
	if x.base == nil || len(x.internal) > 0 || x.log != nil && x.log.b != nil {
		return false, nil
	}
	before, err := x.base.content()
	if err != nil {
		return false, err
	}
	after, err := x.next.content()
	return bytes.Equal(before, after), err
}

func (m *manifest) content() ([]byte, error) {
	return json.Marshal(manifest{Changed: m.Changed, Counter: m.Counter, Tables: m.Tables, Segments: m.Segments})
}

func (x *tx) moved() *manifest {
	out := *x.base
	out.Cursor, out.Run, out.Moves, out.MovedAt = x.next.Cursor, x.next.Run, x.base.Moves+1, x.next.At
	return &out
}

// Commit implements [load.Tx].
func (x *tx) Commit(ctx context.Context, next state.Cursor) error {
	if x.done {
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

// With a catalog, the manifest lists the newest thinNewest generations. The retention time is divided into thinParts
// parts. For each part, the manifest lists only one of the older generations. Without this limit, a day of webhooks
// could make ten thousand generations, and every commit would write all of them to the manifest.
const (
	thinNewest = 64
	thinParts  = 64
)

// The function expired() returns the generations that the manifest still lists. The oldest generation is always among
// them. Only the oldest listed generation determines which files are removed, so the files of an omitted generation
// stay too, and its readers can finish.
func expired(all []generation, keepFor time.Duration) []generation {
	part := max(keepFor/thinParts, time.Second)
	var out []generation
	last := time.Time{}
	for i, g := range all {
		at := g.At.Truncate(part)
		if i > 0 && i < len(all)-thinNewest && at.Equal(last) {
			continue
		}
		out, last = append(out, g), at
	}
	return out
}
