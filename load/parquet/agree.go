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

// Sources that share a table of a catalog infer their column types independently, but a column of the table has only
// one type. If the types differ, the column gets a type that can hold the values of all sources. A commit first casts
// its own rows to that type. If the type of the table is narrower, the commit also rewrites the files of all other
// sources. Each of these sources gets a new generation, with the same cursor as before. All of this is one atomic step.

const agreements = 100

func (x *tx) publish(ctx context.Context) error {
	var err error
	for range agreements {
		err = x.draft.publish(ctx, x.next)
		if of, ok := errors.AsType[*Disagreement](err); ok {
			err = x.agree(ctx, of)
		} else if errors.Is(err, ErrConcurrentSource) {
			d := x.draft.(*tableGeneration)
			d.lastCommits, d.widened = nil, nil // read the last commits of all sources again; a prepared commit is reused if its source has not committed since
			err = nil
		} else {
			return err
		}
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("cannot widen the columns of other sources, which keep committing: %w", state.ErrMoved)
}

// agree widens the columns of this source so that they can hold values of the table's types. If a column of this source
// is then wider than the table's column, agree also prepares commits that widen the column for the other sources.
func (x *tx) agree(ctx context.Context, of *Disagreement) error {
	t := x.next.table(of.Table)
	if t == nil {
		return of
	}
	if err := x.widenTo(ctx, t, of.Columns.Fields()); err != nil {
		return err
	}
	if err := x.writeCommon(ctx, x.next.Cursor); err != nil {
		return err
	}
	var ours []arrow.Field
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

func (x *builder) widenTo(ctx context.Context, t *table, fields []arrow.Field) error {
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

// writeCommon writes the rows of internal tables. It also writes a file for each table without rows, if readers need
// such files: see writeEmpty.
func (x *builder) writeCommon(ctx context.Context, cursor string) error {
	if err := x.writeInternal(ctx, cursor); err != nil {
		return err
	}
	if err := x.writeEmpty(ctx); err != nil {
		return err
	}
	return x.writeDeletes(ctx)
}

func (x *tx) widenOthers(ctx context.Context, name string, ours []arrow.Field) error {
	d := x.draft.(*tableGeneration)
	sources, err := d.tables.parent.catalog.Sources(ctx, d.tables.stream)
	if err != nil {
		return err
	}
	if d.otherCommits == nil {
		d.otherCommits = map[string]*builder{}
	}
	if d.lastCommits == nil {
		d.lastCommits, d.widened = map[string]string{}, map[string]bool{}
	}
	for _, source := range sources {
		if source == x.key.Source {
			continue
		}
		if err := x.widenOther(ctx, d, source, name, ours); err != nil {
			return fmt.Errorf("source %s: %w", source, err)
		}
	}
	d.widened[name] = true
	return nil
}

func (x *tx) widenOther(ctx context.Context, d *tableGeneration, source, name string, ours []arrow.Field) error {
	at := folderIn(d.tables.stream, source)
	f := newFolder(at, x.lake.storage.store(at), &x.lake.scratch) // a separate folder, because a pass of that source may be using the folder that the lake keeps
	now, err := f.manifest(ctx)
	if err != nil || now == nil {
		return err
	}
	d.lastCommits[source] = now.id()
	y := d.otherCommits[source]
	if y != nil && y.base.id() != now.id() {
		if err := y.draft.discard(); err != nil {
			return err
		}
		delete(d.otherCommits, source)
		y = nil
	}
	if y == nil {
		made := newBuilder(x.lake, f, now.key(), now, load.Pass{Run: x.spec.Run, Now: x.spec.Now})
		y = &made
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
		return nil // the columns of this source are wide enough already
	}
	d.otherCommits[source] = y
	return y.writeCommon(ctx, now.Cursor)
}
