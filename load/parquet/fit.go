package parquet

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet/partition"
	"github.com/penstock-data/penstock/schemas"
)

// fit changes the columns of tables. It rewrites all files of a table whose columns change, unless readers can use the
// old files: see [table.evolves].
func (m *merge) fit(ctx context.Context, pending []*load.Staged) error {
	if err := m.lake.step("ddl"); err != nil {
		return err
	}
	if m.spec.Log && m.log == nil {
		m.internalTable(load.RowChanges)
		m.log = &changeLog{}
	}
	for _, p := range pending {
		if err := m.fitOne(ctx, p.Table); err != nil {
			return err
		}
	}
	return nil
}

func (m *merge) fitOne(ctx context.Context, want schemas.Table) error {
	have := schemas.Table{Name: want.Name}
	t := m.next.table(want.Name)
	if t != nil {
		have = t.as()
	}
	plan, err := load.Fit(have, want)
	if err != nil || plan.Empty() {
		return err
	}
	if t == nil {
		if err := m.lake.checkNameFree(ctx, want.Name, m.key.Source, m.folder); err != nil {
			return err
		}
	}
	if err := m.carryOut(ctx, t, plan); err != nil {
		return fmt.Errorf("change table %s: %w", want.Name, err)
	}
	if !plan.ChangesMode() || t == nil || load.Child(t.schema) {
		return nil
	}
	for _, c := range m.next.children(t.Name) {
		plan, err := load.PlanModeChange(c.as(), plan.Table.Mode)
		if err == nil {
			err = m.carryOut(ctx, c, plan)
		}
		if err != nil {
			return fmt.Errorf("change table %s: %w", c.Name, err)
		}
	}
	return nil
}

func (x *builder) carryOut(ctx context.Context, t *table, p load.Plan) error {
	if p.Empty() {
		return nil
	}
	if !load.IsInternal(p.Table.Name) {
		if err := x.record(p.Changes()); err != nil {
			return err
		}
	}
	if t == nil {
		by, err := x.lake.partitioned(p.Table)
		if err == nil {
			x.next.Tables = append(x.next.Tables, x.newTable(p.Table, by))
		}
		return err
	}
	old := *t
	t.become(p.Table)
	if !p.ChangesShape() {
		return nil // only descriptions change; existing files keep the old ones
	}
	if t.evolves(p) {
		return nil
	}
	t.Empty = nil
	if err := x.reshape(ctx, &old, t); err != nil {
		return err
	}
	for _, w := range p.Widen {
		if !w.Exact() {
			if err := x.forget(ctx, t, w.Column.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *builder) reshape(ctx context.Context, old, t *table) error {
	part := func(*segment) string { return "" }
	if t.keepsParts(old) {
		part = func(s *segment) string { return s.Part }
	} else {
		t.Partition = partition.Spec{}
	}
	bury := t.Mode == schemas.Replace && old.Mode != schemas.Replace && t.has(schemas.ColDeletedAt)
	before := x.next.Segments
	err := x.each(ctx, t, func(ctx context.Context, s *segment) (*segment, error) {
		f, err := x.rewrite(ctx, old, t, s.Files[t.Name], part(s), bury)
		if err != nil {
			return nil, err
		}
		out := s.with(t.Name, f)
		if s.Table == t.Name {
			out.Part = part(s)
		}
		return out, nil
	})
	if err == nil && bury && !load.Child(t.schema) {
		x.next.recount(before)
	}
	return err
}

func (m *manifest) recount(before []*segment) {
	old := map[int64]*segment{}
	for _, s := range before {
		old[s.ID] = s
	}
	for _, s := range m.Segments {
		was := old[s.ID]
		if was.root().Rows == s.root().Rows {
			continue
		}
		// A pass records which rows of a segment it has seen, under the ID of the segment (see [pass]). There is
		// nothing to copy to the new ID, because the mode changes at the start of a pass, before the pass has seen any
		// rows.
		m.Counter++
		s.ID = m.Counter
	}
}

// rewrite writes the rows of a file to a new one with the columns of t. If the parameter `bury` is true, rewrite leaves
// out tombstones. It returns nil if no rows are left.
func (x *builder) rewrite(ctx context.Context, old, t *table, f *file, part string, bury bool) (*file, error) {
	fresh, err := x.file(ctx, t, part, func(w *writer) error {
		return f.read(ctx, old, nil, func(_ int64, columns []arrow.Array, rows int) error {
			if bury {
				stand := currentRows(columns[old.column(schemas.ColDeletedAt)])
				if len(stand) == 0 {
					return nil
				}
				var err error
				if columns, err = gather(ctx, columns, stand); err != nil {
					return err
				}
				defer release(columns)
				rows = len(stand)
			}
			out, err := t.shape(columns, old.schema, rows)
			if err != nil {
				return err
			}
			defer release(out)
			return w.add(out, rows)
		})
	})
	if err == nil && fresh.Rows == 0 && f.Rows > 0 {
		return nil, nil // no rows are left; the new file is removed with the other unused files of the transaction
	}
	return fresh, err
}

func currentRows(a arrow.Array) []ref {
	var out []ref
	for i := range a.Len() {
		if a.IsNull(i) {
			out = append(out, ref{row: int32(i)})
		}
	}
	return out
}
