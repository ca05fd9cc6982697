package postgres

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// staged is what was written to one table since the last Apply.
type staged struct {
	schemas.Table // Columns: the join of all batches' schemas
	batches       []arrow.RecordBatch
	rows, bytes   int64
}

// stage adds b to what is pending for its table.
func stage(pending []*staged, t schemas.Table, b arrow.RecordBatch) ([]*staged, error) {
	var s *staged
	for _, p := range pending {
		if p.Name == t.Name {
			s = p
		}
	}
	if s == nil {
		s = &staged{Table: schemas.Table{Name: t.Name, Key: t.Key, Mode: t.Mode}}
		pending = append(pending, s)
	}
	if err := s.join(b.Schema()); err != nil {
		return pending, err
	}
	s.add(b)
	return pending, nil
}

// join widens the columns of s by those of a batch.
func (s *staged) join(columns *arrow.Schema) error {
	if s.Columns == nil {
		s.Columns = columns
		return nil
	}
	t := s.Table
	t.Mode = ""
	p, err := load.Fit(t, schemas.Table{Name: s.Name, Key: s.Key, Columns: columns})
	if err != nil {
		return err
	}
	s.Columns = p.Table.Columns
	return nil
}

// add retains b. A batch without ordinals gets its rows' positions for them.
func (s *staged) add(b arrow.RecordBatch) {
	if b.Schema().HasField(schemas.ColOrdinal) {
		b.Retain()
	} else {
		b = withOrdinals(b, s.rows)
	}
	s.rows += b.NumRows()
	for _, c := range b.Columns() {
		s.bytes += int64(c.Data().SizeInBytes())
	}
	s.batches = append(s.batches, b)
}

func withOrdinals(b arrow.RecordBatch, from int64) arrow.RecordBatch {
	ib := array.NewInt64Builder(memory.DefaultAllocator)
	defer ib.Release()
	for i := range b.NumRows() {
		ib.Append(from + i)
	}
	ordinals := ib.NewArray()
	defer ordinals.Release()
	fields := append(b.Schema().Fields(), arrow.Field{Name: schemas.ColOrdinal, Type: schemas.Int64})
	md := b.Schema().Metadata()
	return array.NewRecordBatch(arrow.NewSchema(fields, &md), append(b.Columns(), ordinals), b.NumRows())
}

func (s *staged) release() {
	for _, b := range s.batches {
		b.Release()
	}
	s.batches = nil
}

// child reports whether rows of the table hang from those of another.
func child(t schemas.Table) bool { return t.Columns != nil && t.Columns.HasField(schemas.ColParent) }

// checkKey refuses rows whose key is not whole.
func checkKey(t schemas.Table, b arrow.RecordBatch) error {
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
