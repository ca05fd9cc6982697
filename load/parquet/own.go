package parquet

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet/partition"
	"github.com/penstock-data/penstock/schemas"
)

func (x *builder) internalTable(t schemas.Table) *table {
	if have := x.next.table(t.Name); have != nil {
		return have
	}
	made := x.newTable(t, partition.Spec{})
	x.next.Tables = append(x.next.Tables, made)
	return made
}

func (x *builder) record(changes []load.Change) error {
	if len(changes) == 0 {
		return nil
	}
	rows := make([][]any, len(changes))
	for i, c := range changes {
		rows[i] = []any{x.stamp, x.spec.Run, c.Table, c.Column, c.Source, c.Action, c.From, c.To, c.Reason}
	}
	x.next.Changed = x.stamp
	return x.appendInternal(load.Changes, rows...)
}

func (x *builder) appendInternal(t schemas.Table, rows ...[]any) error {
	b, err := load.Rows(t, rows...)
	if err != nil {
		return err
	}
	defer b.Release()
	x.internalTable(t)
	return x.append(t.Name, b)
}

// append keeps rows of an internal table in memory. The commit writes them as one file. The log of row changes can have
// many rows, so parts of the log are written earlier: see [builder.flushLog].
func (x *builder) append(table string, batches ...arrow.RecordBatch) error {
	own := x.internal[table]
	if own == nil {
		own = &load.Staged{Table: schemas.Table{Name: table}}
		x.internal[table] = own
	}
	for _, b := range batches {
		if err := own.Add(b); err != nil {
			return err
		}
	}
	return nil
}

func (x *builder) flushInternal(ctx context.Context, name string) error {
	s := &staged{Staged: x.internal[name]}
	delete(x.internal, name)
	defer s.Release()
	defer s.release()
	t := x.next.table(name)
	if err := s.shape(t); err != nil {
		return err
	}
	var refs []ref
	for i, o := range s.ordinals {
		for j := range o.Len() {
			refs = append(refs, ref{int32(i), int32(j)})
		}
	}
	f, err := x.compose(ctx, t, "", s, refs)
	if err != nil {
		return err
	}
	out := x.next.newSegment(name, "")
	out.Files[name] = f
	x.next.Segments = append(x.next.Segments, out)
	return nil
}

func (x *builder) writeInternal(ctx context.Context, next string) error {
	if err := x.flushLog(ctx); err != nil {
		return err
	}
	x.next.Segments = slices.DeleteFunc(x.next.Segments, func(s *segment) bool { return s.Table == load.State.Name })
	x.internalTable(load.Changes)
	at := x.when
	if !x.next.StateAt.IsZero() {
		at = x.next.StateAt
	}
	if err := x.appendInternal(load.State, []any{x.key.Pipeline, x.key.Stream, next, x.next.Sequence, at}); err != nil {
		return err
	}
	for _, t := range x.next.Tables {
		if x.internal[t.Name] != nil {
			if err := x.flushInternal(ctx, t.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeEmpty writes a file for each table without rows, because the file patterns of readers must match at least one
// file. Readers of a catalog need no such file.
func (x *builder) writeEmpty(ctx context.Context) error {
	for _, t := range x.next.Tables {
		has := slices.ContainsFunc(x.next.Segments, func(s *segment) bool { return s.Files[t.Name] != nil })
		switch {
		case has, x.lake.o.Catalog != nil:
			t.Empty = nil
		case t.Empty == nil:
			var err error
			if t.Empty, err = x.file(ctx, t, t.emptyPart(), func(*writer) error { return nil }); err != nil {
				return err
			}
		}
	}
	return nil
}
