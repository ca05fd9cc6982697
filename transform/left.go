package transform

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/schemas"
)

// TrackFiltered makes s store the keys of the records that the filter excludes: see [Shaper.FilteredKeys]. No rule
// may mask or rename the stream's key.
func (s *Shaper) TrackFiltered() { s.trackLeft = true }

// FilteredKeys returns the keys of the records that the filter has excluded since the last call. The batches have the
// key columns and the ordinal. The caller releases them.
func (s *Shaper) FilteredKeys() []TableBatch {
	left := s.left
	s.left = nil
	return left
}

func (w *work) collectLeft() {
	var rows []int32
	for row, gone := range w.excluded {
		if gone {
			rows = append(rows, int32(row))
		}
	}
	if len(rows) == 0 || len(w.root.keys) == 0 {
		return
	}
	var fields []arrow.Field
	var arrays []arrow.Array
	add := func(name string, src *vector) {
		a := gather(src, rows)
		fields, arrays = append(fields, arrow.Field{Name: name, Type: a.DataType(), Nullable: true}), append(arrays, a)
	}
	for _, i := range w.root.keys {
		add(w.root.table.Columns.Field(i).Name, w.view(w.root, i))
	}
	add(schemas.ColOrdinal, w.view(w.root, w.root.index[schemas.ColOrdinal]))
	w.left = append(w.left, TableBatch{Table: w.root.table, Batch: array.NewRecordBatch(arrow.NewSchema(fields, nil), arrays, int64(len(rows)))})
	for _, a := range arrays {
		a.Release()
	}
}
