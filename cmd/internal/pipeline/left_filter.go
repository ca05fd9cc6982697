package pipeline

import (
	"context"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/batch"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform"
)

// removeLeft deletes the rows of records that the filter now leaves out. It needs no proven pass, because the source
// has returned each of these records. If a record arrived twice, the later version decides. // Invariant 8
func (k *destinationRun) removeLeft(ctx context.Context, p *pass, g *group) error {
	if len(g.left) == 0 {
		return nil
	}
	kept, err := lastOrdinals(p.stream, g.batches)
	if err != nil {
		return err
	}
	var keys []arrow.RecordBatch
	defer func() { batch.Release(keys) }()
	for _, b := range g.left {
		cells, err := rowhash.Columns(b.Batch, append(slices.Clone(p.stream.Key), schemas.ColOrdinal))
		if err != nil {
			return err
		}
		n := len(p.stream.Key)
		stays := map[int64]bool{}
		for row := range int(b.Batch.NumRows()) {
			key, ordinal := rowhash.KeyText(cells[:n], row), cells[n].(*array.Int64).Value(row)
			later, is := kept[key]
			stays[ordinal] = is && later > ordinal || k.overlay.Has(key)
		}
		rest, err := batch.Without([]transform.TableBatch{b}, func(ordinal int64) bool { return stays[ordinal] })
		for _, r := range rest {
			keys = append(keys, array.NewRecordBatch(arrow.NewSchema(r.Batch.Schema().Fields()[:n], nil), r.Batch.Columns()[:n], r.Batch.NumRows()))
		}
		batch.ReleaseTables(rest)
		if err != nil {
			return err
		}
	}
	if len(keys) == 0 {
		return nil
	}
	if _, err := k.apply(ctx, load.Sweep{}); err != nil {
		return err
	}
	_, err = k.apply(ctx, load.Sweep{Table: p.stream.Table.Name, Delete: true, Keys: keys})
	return err
}

// lastOrdinals returns the ordinal of the last row of each key.
func lastOrdinals(s schemas.Stream, batches []transform.TableBatch) (map[string]int64, error) {
	last, n := map[string]int64{}, len(s.Key)
	err := batch.EachRow(batches, s.Table.Name, append(slices.Clone(s.Key), schemas.ColOrdinal), func(cells []arrow.Array, row int) {
		last[rowhash.KeyText(cells[:n], row)] = cells[n].(*array.Int64).Value(row)
	})
	return last, err
}
