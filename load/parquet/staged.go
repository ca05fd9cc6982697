package parquet

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

type staged struct {
	*load.Staged
	columns  [][]arrow.Array // for each batch, the table's columns
	ordinals []*array.Int64
	begins   [][]int64 // for each batch, in mode history: the start of each row's validity
}

func (s *staged) shape(t *table) error {
	for _, b := range s.Batches {
		columns, err := t.shape(b.Columns(), b.Schema(), int(b.NumRows()))
		if err != nil {
			return err
		}
		s.columns = append(s.columns, columns)
		ordinals, err := ordinalsOf(b)
		if err != nil {
			return err
		}
		s.ordinals = append(s.ordinals, ordinals)
		if t.Mode == schemas.History && !load.IsInternal(t.Name) {
			s.begins = append(s.begins, beginsOf(columns[t.column(schemas.ColSyncedAt)]))
		}
	}
	return nil
}

func ordinalsOf(b arrow.RecordBatch) (*array.Int64, error) {
	at := b.Schema().FieldIndices(schemas.ColOrdinal)
	if a, ok := b.Column(at[0]).(*array.Int64); ok {
		return a, nil
	}
	return nil, fmt.Errorf("the column of ordinals has the type %s, not int64", b.Column(at[0]).DataType())
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
	for _, c := range s.columns {
		release(c)
	}
	s.columns, s.ordinals = nil, nil
}
