package parquet

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet/values"
	"github.com/penstock-data/penstock/schemas"
)

// Accept implements [load.Destination]. If files of the table are missing, Accept removes them from the manifest, and
// the next pass loads their rows again. If a file was changed, Accept accepts its present content. If the table's
// folder has Parquet files that penstock did not write, Accept returns an error. If the lake has a catalog, Accept
// undoes what another program has changed in the table.
func (l *Lake) Accept(ctx context.Context, name string) ([]load.Change, error) {
	changes, err := l.accept(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("accept %s: %w", name, err)
	}
	return changes, nil
}

func (l *Lake) accept(ctx context.Context, name string) ([]load.Change, error) {
	folders, err := l.folders(ctx)
	if err != nil {
		return nil, err
	}
	var changes []load.Change
	for _, f := range folders {
		m, err := f.manifest(ctx)
		if err != nil {
			return nil, err
		}
		if m == nil || m.table(name) == nil {
			continue
		}
		some, err := l.acceptIn(ctx, f, m, name)
		if err != nil {
			return nil, err
		}
		changes = append(changes, some...)
	}
	return changes, nil
}

func (l *Lake) acceptIn(ctx context.Context, f *folder, m *manifest, name string) (changes []load.Change, err error) {
	x := &tx{builder: newBuilder(l, f, m.key(), m, load.Pass{})}
	x.seen = newSeenRows(newPass(""))
	defer func() { err = errors.Join(err, x.Rollback()) }()
	for _, step := range []func() error{
		func() error { return x.lock(ctx) },
		func() error { return x.checkFence(ctx) },
		func() error { x.folder.checkedRun = ""; return x.tidy(ctx) },
		func() error { return x.open(ctx) },
	} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	t := x.next.table(name)
	c, err := x.next.condition(ctx, t)
	if err != nil {
		return nil, err
	}
	foreign, err := x.restore(ctx, t)
	if err != nil || len(foreign) == 0 && (c.dropped || c.diff() == nil) {
		return nil, err
	}
	if len(c.foreign) > 0 {
		return nil, fmt.Errorf("move %s out of the table's folder: penstock did not write it", c.foreign[0])
	}
	changes = x.acceptDeletes(t, c)
	x.next.acceptSizes(t, c)
	more, err := x.acceptFiles(ctx, t, c)
	if err != nil {
		return nil, err
	}
	return slices.Concat(changes, more, foreign), x.commit(ctx, x.from)
}

// restore makes the next commit undo what another program has changed in a table of the catalog. It returns these
// changes.
func (x *builder) restore(ctx context.Context, t *table) (changes []load.Change, err error) {
	d, ok := x.draft.(*tableGeneration)
	if !ok {
		return nil, nil
	}
	diff, err := d.tables.parent.catalog.Foreign(ctx, d.tables.stream, d.tables.source, d.tables.tableFiles(x.base, x.next, t))
	for _, line := range diff {
		d.restored = t.Name
		changes = append(changes, load.Change{At: x.stamp, Table: t.Name, Action: load.ActionRestore, Reason: line})
	}
	return changes, errors.Join(err, x.record(changes))
}

func (m *manifest) acceptSizes(t *table, c condition) {
	found := func(f *file) *file {
		if f != nil {
			if size, ok := c.changed[f.Name]; ok {
				out := *f
				out.Size = size
				return &out
			}
		}
		return f
	}
	t.Empty = found(t.Empty)
	for i, s := range m.Segments {
		if f := s.Files[t.Name]; f != nil && found(f) != f {
			m.Segments[i] = s.with(t.Name, found(f))
		}
	}
}

func (x *builder) acceptFiles(ctx context.Context, t *table, c condition) ([]load.Change, error) {
	var changes []load.Change
	for name := range c.lost {
		changes = append(changes, load.Change{Table: t.Name, Action: load.ActionForget, Reason: "file " + name + " is missing; the next pass loads its rows again"})
	}
	if err := x.dropMissing(ctx, t, c); err != nil {
		return nil, err
	}
	live, err := x.live(ctx, t)
	if err != nil {
		return nil, err
	}
	columns, err := t.compare(live)
	if err != nil {
		return nil, err
	}
	for i := range columns {
		columns[i].At = x.stamp
	}
	if err := x.record(columns); err != nil {
		return nil, err
	}
	if err := x.rewriteAccepted(ctx, t, live, columns, c); err != nil {
		return nil, err
	}
	return append(columns, changes...), nil
}

func (x *builder) dropMissing(ctx context.Context, t *table, c condition) error {
	root := x.next.table(x.next.rootOf(t))
	return x.each(ctx, t, func(ctx context.Context, s *segment) (*segment, error) {
		switch {
		case !c.lost[s.Files[t.Name].Name]:
			return s, nil
		case load.Child(t.schema):
			return x.forgetIn(ctx, root, s.with(t.Name, nil), nil)
		}
		return nil, nil
	})
}

func (x *builder) live(ctx context.Context, t *table) (*table, error) {
	var out *table
	for _, f := range x.next.files(t) {
		one, err := f.columns(ctx, t)
		if err != nil {
			return nil, err
		}
		if out != nil && !slices.Equal(out.Columns, one.Columns) {
			return nil, fmt.Errorf("its files have different columns: see %s", f.path())
		}
		out = one
	}
	if out == nil {
		return t, nil
	}
	return out, nil
}

func (f *file) columns(ctx context.Context, t *table) (*table, error) {
	r, err := f.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.path(), err)
	}
	defer r.Close()
	pq, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		return nil, err
	}
	schema, err := pq.Schema()
	if err != nil {
		return nil, err
	}
	var fields []arrow.Field
	for _, have := range schema.Fields() {
		if have.Name == schemas.ColSource && t.owner != "" {
			continue // see [table.fileSchema]
		}
		typ, source := values.Lattice(have.Type), ""
		if at := t.column(have.Name); at >= 0 {
			source = t.Columns[at].Source
			if was := schemas.TypeOf(t.schema.Field(at)); schemas.SameType(was, schemas.JSON) && have.Type.ID() == arrow.STRING {
				typ = was
			}
		}
		if typ == nil {
			return nil, fmt.Errorf("column %q is %s, a type that penstock does not write", have.Name, have.Type)
		}
		fields = append(fields, schemas.Field(have.Name, typ, source))
	}
	f.Rows = r.NumRows() - int64(len(f.Deleted))
	out := *t
	out.become(schemas.Table{Key: t.Key, Mode: t.Mode, Columns: arrow.NewSchema(fields, nil)})
	return &out, nil
}

func (t *table) compare(live *table) ([]load.Change, error) {
	var out []load.Change
	for i, f := range t.schema.Fields() {
		var to arrow.DataType
		if at := live.column(f.Name); at >= 0 {
			to = schemas.TypeOf(live.schema.Field(at))
			if schemas.SameType(to, schemas.TypeOf(t.schema.Field(i))) {
				continue
			}
		}
		c, err := load.Accepted(t.as(), f, to)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	for _, c := range live.Columns {
		if t.column(c.Name) < 0 {
			return nil, fmt.Errorf("remove column %q: penstock did not create it, and the next commit would drop it", c.Name)
		}
	}
	return out, nil
}

// rewriteAccepted clears the hashes of the table's records if files or columns have changed. So the next pass writes
// these records again, with the values that were lost.
func (x *builder) rewriteAccepted(ctx context.Context, t, live *table, changes []load.Change, c condition) error {
	var fields []arrow.Field
	for _, f := range t.schema.Fields() {
		if at := live.column(f.Name); at >= 0 {
			fields = append(fields, schemas.Field(f.Name, schemas.TypeOf(live.schema.Field(at)), schemas.Source(f)))
		}
	}
	md := t.schema.Metadata()
	to := t.as()
	to.Columns = arrow.NewSchema(fields, &md)
	t.become(to)
	t.Empty = nil
	err := x.each(ctx, t, func(ctx context.Context, s *segment) (*segment, error) {
		f := s.Files[t.Name]
		if _, changed := c.changed[f.Name]; len(changes) == 0 && !changed {
			return s, nil
		}
		fresh, err := x.rewrite(ctx, live, t, f, filepath.Dir(f.Name), false)
		if err != nil {
			return nil, err
		}
		return s.with(t.Name, fresh), nil
	})
	if err != nil || len(changes) == 0 && len(c.changed) == 0 {
		return err
	}
	root := x.next.table(x.next.rootOf(t))
	return x.each(ctx, root, func(ctx context.Context, s *segment) (*segment, error) {
		return x.forgetIn(ctx, root, s, nil)
	})
}
