package parquet

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// staged are the rows handed in for one table since the last Apply.
type staged struct {
	schemas.Table // with columns that all its batches fit into
	batches       []arrow.RecordBatch
	rows          int64

	columns  [][]arrow.Array // of each batch, as the table has them
	ordinals []*array.Int64  // of each batch
	begins   [][]int64       // of each batch, in mode history: from when each row is valid
}

// add takes a batch.
func (s *staged) add(b arrow.RecordBatch) error {
	columns, err := joined(s.Columns, b.Schema())
	if err != nil {
		return fmt.Errorf("write %s: %w", s.Name, err)
	}
	s.Columns = columns
	b.Retain()
	s.batches = append(s.batches, b)
	s.rows += b.NumRows()
	return nil
}

// joined are columns wide enough for rows of both schemas.
func joined(a, b *arrow.Schema) (*arrow.Schema, error) {
	if a == nil || a == b {
		return b, nil
	}
	fields := slices.Clone(a.Fields())
	for _, f := range b.Fields() {
		i := slices.IndexFunc(fields, func(g arrow.Field) bool { return g.Name == f.Name })
		if i < 0 {
			fields = append(fields, f)
			continue
		}
		source := schemas.Source(fields[i])
		if other := schemas.Source(f); source != other && source != "" && other != "" {
			return nil, fmt.Errorf("column %q holds %s, not %s", f.Name, source, other) // Invariant 17
		}
		if to := schemas.Join(schemas.TypeOf(fields[i]), schemas.TypeOf(f)); !schemas.SameType(to, schemas.TypeOf(fields[i])) {
			fields[i] = schemas.Describe(schemas.Field(f.Name, to, source), schemas.Described(fields[i]))
		}
	}
	md := a.Metadata()
	if load.Place(a) == "" {
		md = b.Metadata()
	}
	return arrow.NewSchema(fields, &md), nil
}

// shape gives all batches the columns of the table.
func (s *staged) shape(t *table) error {
	for _, b := range s.batches {
		columns, err := t.shape(b.Columns(), b.Schema(), int(b.NumRows()))
		if err != nil {
			return err
		}
		s.columns = append(s.columns, columns)
		s.ordinals = append(s.ordinals, ordinalsOf(b))
		if t.Mode == schemas.History && !load.Own(t.Name) {
			s.begins = append(s.begins, beginsOf(columns[t.column(schemas.ColSyncedAt)]))
		}
	}
	return nil
}

// ordinalsOf are the ordinals of a batch's rows; their places where it has none.
func ordinalsOf(b arrow.RecordBatch) *array.Int64 {
	if at := b.Schema().FieldIndices(schemas.ColOrdinal); len(at) == 1 {
		if a, ok := b.Column(at[0]).(*array.Int64); ok {
			a.Retain()
			return a
		}
	}
	n := array.NewInt64Builder(memory.DefaultAllocator)
	defer n.Release()
	for i := range b.NumRows() {
		n.Append(i)
	}
	return n.NewInt64Array()
}

func beginsOf(synced arrow.Array) []int64 {
	out := make([]int64, synced.Len())
	if a, ok := synced.(*array.Timestamp); ok {
		for i := range out {
			out[i] = int64(a.Value(i))
		}
	}
	return out
}

// settle puts the times from when rows are valid into their columns.
func (s *staged) settle(t *table) {
	for i, begins := range s.begins {
		b := array.NewTimestampBuilder(memory.DefaultAllocator, schemas.Timestamp.(*arrow.TimestampType))
		for _, v := range begins {
			b.Append(arrow.Timestamp(v))
		}
		at := t.column(schemas.ColValidFrom)
		s.columns[i][at].Release()
		s.columns[i][at] = b.NewArray()
		b.Release()
	}
}

func (s *staged) release() {
	for _, b := range s.batches {
		b.Release()
	}
	for i, c := range s.columns {
		release(c)
		s.ordinals[i].Release()
	}
	s.batches, s.columns, s.ordinals = nil, nil, nil
}
