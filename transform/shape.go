package transform

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/schemas"
)

func (w *work) prune() {
	for _, t := range w.tables {
		kept := make([]int32, 0, t.rows)
		for row := range t.rows {
			if !w.excluded[t.recordOf(row)] && (t.excluded == nil || !t.excluded[row]) {
				kept = append(kept, int32(row))
			}
		}
		if len(kept) < t.rows {
			w.keep(t, kept)
		}
	}
	if w.sums != nil {
		w.sums = kept(w.sums, w.excluded)
	}
	w.excluded = make([]bool, w.root.rows)
	if w.root.rows > 0 {
		w.align()
	}
}

func (w *work) keep(t *openBatch, rows []int32) {
	for i, a := range t.arrays {
		if a != nil {
			t.put(i, gather(viewOf(a, t.types[i], w.m.tables.mem), rows))
		}
	}
	t.rows = len(rows)
}

func kept(sums []sum, gone []bool) []sum {
	n := 0
	for i, s := range sums {
		if !gone[i] {
			sums[n] = s
			n++
		}
	}
	return sums[:n]
}

func (w *work) batches() ([]TableBatch, error) {
	for _, t := range w.tables {
		if err := t.rename(); err != nil {
			return nil, err
		}
	}
	var out []TableBatch
	for _, t := range w.tables {
		if t.rows > 0 {
			out = append(out, t.finish())
		}
	}
	return out, nil
}

func (t *openBatch) finish() TableBatch {
	var fields []arrow.Field
	var arrays []arrow.Array
	for i, f := range t.table.Columns.Fields() {
		if t.arrays[i] == nil {
			continue
		}
		f.Name = t.names[i]
		if typ := t.types[i]; !schemas.SameType(typ, schemas.TypeOf(f)) {
			if _, ok := sourceOf(f); ok {
				f = schemas.Field(f.Name, typ, schemas.Source(f))
			} else {
				f.Type = typ
			}
		}
		fields = append(fields, f)
		arrays = append(arrays, t.arrays[i])
	}
	md := t.table.Columns.Metadata()
	table := t.table
	table.Columns = arrow.NewSchema(fields, &md)
	if t.node.parent == nil {
		table.Key = nil
		for _, i := range t.keys {
			table.Key = append(table.Key, t.names[i])
		}
	}
	return TableBatch{Table: table, Batch: array.NewRecordBatch(table.Columns, arrays, int64(t.rows))}
}
