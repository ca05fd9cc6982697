package deltas

import (
	"context"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/batch"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/reject"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/load"
)

func (x *delta) markDeleted(ctx context.Context, tx load.Tx, m *mapped, out *load.Outcome) error {
	gone := slices.Concat(x.gone, x.leftOut(m))
	if len(gone) == 0 {
		return nil
	}
	for _, keys := range keyBatches(x.q.stream.Key[0], gone) {
		defer keys.Release()
		swept, err := tx.Apply(ctx, load.Sweep{Table: x.q.stream.Table.Name, Delete: true, Keys: []arrow.RecordBatch{keys}})
		if err != nil {
			return err
		}
		out.Deleted += swept.Deleted
	}
	return nil
}

// leftOut returns the records that the filter of the stream leaves out. Their rows are deleted.
func (x *delta) leftOut(m *mapped) []*entity {
	if len(x.q.stream.Rules.Filter) == 0 {
		return nil
	}
	kept := map[string]bool{}
	err := batch.EachRow(m.batches, x.q.stream.Table.Name, x.q.stream.Key, func(key []arrow.Array, row int) { kept[rowhash.KeyText(key, row)] = true })
	if err != nil {
		return nil // the key is not known, so no row is deleted
	}
	for _, r := range m.rejects {
		if key, ok := reject.PlainKey(r.Key); ok {
			kept[key] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(x.entities), func(e *entity) bool {
		key, ok := reject.PlainKey(e.key)
		return !ok || kept[key]
	})
}

// keyBatches returns the keys in at most two batches: the integers in one batch, and the texts in another. It leaves
// out an empty batch.
func keyBatches(column string, all []*entity) []arrow.RecordBatch {
	numbers, texts := array.NewInt64Builder(memory.DefaultAllocator), array.NewStringBuilder(memory.DefaultAllocator)
	defer numbers.Release()
	defer texts.Release()
	for _, e := range all {
		if n, err := strconv.ParseInt(e.key, 10, 64); err == nil {
			numbers.Append(n)
		} else if text, ok := reject.PlainKey(e.key); ok {
			texts.Append(text)
		}
	}
	var out []arrow.RecordBatch
	for _, b := range []array.Builder{numbers, texts} {
		if b.Len() == 0 {
			continue
		}
		a := b.NewArray()
		defer a.Release()
		schema := arrow.NewSchema([]arrow.Field{{Name: column, Type: a.DataType()}}, nil)
		out = append(out, array.NewRecordBatch(schema, []arrow.Array{a}, int64(a.Len())))
	}
	return out
}
