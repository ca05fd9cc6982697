package parquet

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Sources that share a table of a catalog each find out for themselves of which
// types their columns are, and a column of the table is of one. Where a commit's
// is another, it becomes what both fit in: first in the commit's own rows, and
// then, where that is not what the table has, in those of all others, whose files
// are written anew as commits of theirs, with the cursors they have. All of it is
// one step. Who shares the table finds a generation that is not his own, and goes
// on from it.

// agreements bounds how often a commit is tried that needs others to agree.
const agreements = 100

// publish makes the next generation the one that counts.
func (x *tx) publish(ctx context.Context) error {
	var err error
	for range agreements {
		err = x.draft.publish(ctx, x.next)
		if of, ok := errors.AsType[*Disagreement](err); ok {
			err = x.agree(ctx, of)
		} else if errors.Is(err, ErrBeside) {
			d := x.draft.(*tableGeneration)
			d.among, d.agreed = nil, nil // each is looked at again, and what was prepared for who stands still is kept
			err = nil
		} else {
			return err
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("other sources commit all the time, and their columns cannot be widened: %w", state.ErrMoved)
}

// agree widens the columns in question where they are narrower than the others'.
func (x *tx) agree(ctx context.Context, of *Disagreement) error {
	t := x.next.table(of.Table)
	if t == nil {
		return of
	}
	if err := x.widenTo(ctx, t, of.Columns.Fields()); err != nil {
		return err
	}
	if err := x.complete(ctx, x.next.Cursor); err != nil {
		return err
	}
	var ours []arrow.Field // those that the others have to take over
	for _, theirs := range of.Columns.Fields() {
		i := t.column(theirs.Name)
		if t.Columns[i].ID != numberFor(theirs.Name, theirs.Type) {
			ours = append(ours, t.schema.Field(i))
		}
	}
	if ours == nil {
		return nil
	}
	return x.widenOthers(ctx, t.Name, ours)
}

// widenTo makes columns of a table wide enough for the values of others.
func (x *tx) widenTo(ctx context.Context, t *table, fields []arrow.Field) error {
	var want []arrow.Field
	for _, f := range fields {
		if t.column(f.Name) >= 0 {
			want = append(want, schemas.Field(f.Name, schemas.TypeOf(f), ""))
		}
	}
	md := t.schema.Metadata()
	plan, err := load.Fit(t.as(), schemas.Table{Name: t.Name, Key: t.Key, Mode: t.Mode, Columns: arrow.NewSchema(want, &md)})
	if err == nil {
		err = x.carryOut(ctx, t, plan)
	}
	if err != nil {
		return fmt.Errorf("change table %s: %w", t.Name, err)
	}
	return nil
}

// complete writes what belongs to every generation.
func (x *tx) complete(ctx context.Context, cursor string) error {
	if err := x.writeOwn(ctx, cursor); err != nil {
		return err
	}
	return x.writeEmpty(ctx)
}

// widenOthers prepares the commits of all other sources in which a table's columns
// become what they are in this one's.
func (x *tx) widenOthers(ctx context.Context, name string, ours []arrow.Field) error {
	d := x.draft.(*tableGeneration)
	sources, err := d.shelf.tabled.catalog.Sources(ctx, d.shelf.stream)
	if err != nil {
		return err
	}
	if d.beside == nil {
		d.beside = map[string]*tx{}
	}
	if d.among == nil {
		d.among, d.agreed = map[string]string{}, map[string]bool{}
	}
	for _, source := range sources {
		if source == x.key.Source {
			continue
		}
		if err := x.widenOther(ctx, d, source, name, ours); err != nil {
			return fmt.Errorf("source %s: %w", source, err)
		}
	}
	d.agreed[name] = true
	return nil
}

func (x *tx) widenOther(ctx context.Context, d *tableGeneration, source, name string, ours []arrow.Field) error {
	at := folderIn(d.shelf.stream, source)
	f := newFolder(at, x.lake.storage.shelf(at)) // its own: the other may be at work on the lake's
	now, err := f.manifest(ctx)
	if err != nil || now == nil {
		return err
	}
	d.among[source] = now.id()
	y := d.beside[source]
	if y != nil && y.base.id() != now.id() {
		if err := y.draft.discard(); err != nil {
			return err
		}
		delete(d.beside, source)
		y = nil
	}
	if y == nil {
		y = &tx{
			lake: x.lake, folder: f, key: now.key(), from: cursorOf(now), base: now, of: load.Pass{Run: x.of.Run, Now: x.of.Now},
			pass: &pass{bits: map[int64]bitset{}, hint: map[string]int64{}}, bits: map[int64]bitset{}, own: map[string]*load.Staged{},
		}
		if err := y.open(ctx); err != nil {
			return err
		}
		y.next.Beside, y.next.At = now.Beside+1, y.when
		y.outdate()
	}
	t := y.next.table(name)
	if t == nil {
		return nil
	}
	before := y.next.Changed
	if err := y.widenTo(ctx, t, ours); err != nil {
		return err
	}
	if y.next.Changed.Equal(before) {
		return nil // it has them already
	}
	d.beside[source] = y
	return y.complete(ctx, now.Cursor)
}
