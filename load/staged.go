package load

import (
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/schemas"
)

// Staged holds the rows of one table that a transaction has received through Write since its last Apply. It is meant
// for destinations that collect rows until Apply.
type Staged struct {
	schemas.Table // its Columns fit the rows of all batches
	Batches       []arrow.RecordBatch
	Rows          int64 // number of rows of all batches, including released ones
}

// Stage adds b to the pending rows of the table t, as [Tx].Write requires. The result has the tables in the order in
// which their first batches arrived. Each table in the result has the mode that its first batch had.
func Stage(pending []*Staged, t schemas.Table, b arrow.RecordBatch) ([]*Staged, error) {
	if err := WholeKey(t, b); err != nil {
		return pending, err
	}
	i := slices.IndexFunc(pending, func(s *Staged) bool { return s.Name == t.Name })
	if i < 0 {
		i = len(pending)
		pending = append(pending, &Staged{Table: schemas.Table{Name: t.Name, Key: t.Key, Mode: t.Mode}})
	}
	return pending, pending[i].Add(b)
}

// WholeKey returns an error if a row of t has null in a key column, because two such rows could not be distinguished.
// It also checks penstock's own tables.
func WholeKey(t schemas.Table, b arrow.RecordBatch) error {
	for _, k := range t.Key {
		i := b.Schema().FieldIndices(k)
		if len(i) == 0 {
			return fmt.Errorf("no key column %s", k)
		}
		if n := b.Column(i[0]).NullN(); n > 0 {
			return fmt.Errorf("key column %s is null in %d rows", k, n)
		}
	}
	return nil
}

// Add adds the rows of b, and retains b. If b has no ordinals, its rows are numbered in the order in which they
// arrive.
func (s *Staged) Add(b arrow.RecordBatch) error {
	if err := s.widen(b.Schema()); err != nil {
		return err
	}
	if b.Schema().HasField(schemas.ColOrdinal) {
		b.Retain()
	} else {
		b = withOrdinals(b, s.Rows)
	}
	s.Batches = append(s.Batches, b)
	s.Rows += b.NumRows()
	return nil
}

func (s *Staged) widen(columns *arrow.Schema) error {
	if s.Columns == nil || s.Columns == columns {
		s.Columns = columns
		return nil
	}
	have := schemas.Table{Name: s.Name, Key: s.Key, Columns: s.Columns}
	p, err := Fit(have, schemas.Table{Name: s.Name, Key: s.Key, Columns: columns})
	if err != nil {
		return err
	}
	s.Columns = p.Table.Columns
	return nil
}

// Release releases the batches.
func (s *Staged) Release() {
	for _, b := range s.Batches {
		b.Release()
	}
	s.Batches = nil
}

// withOrdinals returns b with ordinals that begin at first. The caller releases the result.
func withOrdinals(b arrow.RecordBatch, first int64) arrow.RecordBatch {
	ib := array.NewInt64Builder(memory.DefaultAllocator)
	defer ib.Release()
	ib.Reserve(int(b.NumRows()))
	for i := range b.NumRows() {
		ib.UnsafeAppend(first + i)
	}
	ordinals := ib.NewArray()
	defer ordinals.Release()
	fields := append(b.Schema().Fields(), arrow.Field{Name: schemas.ColOrdinal, Type: schemas.Int64})
	md := b.Schema().Metadata()
	return array.NewRecordBatch(arrow.NewSchema(fields, &md), append(slices.Clip(b.Columns()), ordinals), b.NumRows())
}
