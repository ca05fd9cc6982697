package pipeline

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform"
)

// withheld splits the rows of a group for one destination. The rows in batches are written. The other rows are
// withheld, because deltas have committed their records during the pass.
type withheld struct {
	batches  []transform.TableBatch
	own      bool            // batches are copies, which must be released
	fresh    int64           // withheld rows of records that the pass had not read before
	again    int64           // withheld rows of records that the pass had read before
	doubtful []cursor.Record // records whose withheld row differs from the delta's
	keys     []string
}

func (h *withheld) release() {
	h.give(nil)
	*h = withheld{}
}

// withhold removes the rows that must not overwrite rows of deltas: their page may have been requested before the
// deltas. // Invariant 8
func (k *destinationRun) withhold(s schemas.Stream, batches []transform.TableBatch) error {
	k.held.release()
	k.held.batches = batches
	if k.overlay == nil || len(k.overlay.known) == 0 {
		return nil
	}
	out := map[int64]bool{}
	seen := map[string]bool{}
	for _, b := range batches {
		if b.Table.Name != s.Table.Name {
			continue
		}
		cells, err := rowhash.Columns(b.Batch, []string{s.Key[0], schemas.ColHash, schemas.ColOrdinal})
		if err != nil {
			return err
		}
		for row := range int(b.Batch.NumRows()) {
			key := rowhash.KeyText(cells[:1], row)
			if r := k.overlay.known[key]; r != nil {
				k.held.add(r, key, rowhash.Text(cells[1], row), seen[key])
				seen[key] = true
				out[cells[2].(*array.Int64).Value(row)] = true
			}
		}
	}
	if len(out) == 0 {
		return nil
	}
	var err error
	k.held.own = true
	k.held.batches, err = without(batches, func(ordinal int64) bool { return out[ordinal] })
	return err
}

func (h *withheld) add(r *deltaRow, key, hash string, before bool) {
	h.keys = append(h.keys, key)
	if r.inPass || before {
		h.again++
	} else {
		h.fresh++
	}
	if hash != r.hash {
		h.doubtful = append(h.doubtful, cursor.Record{Key: r.requestKey, At: r.event, Gone: r.hash == ""})
	}
}

func (k *destinationRun) settleHeld(u *streamLock) {
	for _, key := range k.held.keys {
		k.overlay.known[key].inPass = true
	}
	if len(k.held.doubtful) > 0 {
		u.doubt.Store(true)
	}
	k.held.release()
}

func (h *withheld) give(batches []transform.TableBatch) {
	if h.own {
		releaseBatches(h.batches)
	}
	h.batches, h.own = batches, true
}

func releaseBatches(all []transform.TableBatch) {
	for _, b := range all {
		b.Batch.Release()
	}
}

// without returns copies of the batches. It leaves out the rows whose ordinal omit selects, in child tables too.
func without(batches []transform.TableBatch, omit func(ordinal int64) bool) (out []transform.TableBatch, err error) {
	for _, b := range batches {
		cells, err := rowhash.Columns(b.Batch, []string{schemas.ColOrdinal})
		if err != nil {
			return out, err
		}
		at, from := cells[0].(*array.Int64), 0
		var parts []arrow.RecordBatch
		n := int(b.Batch.NumRows())
		for row := 0; row <= n; row++ {
			if row < n && !omit(at.Value(row)) {
				continue
			}
			if row > from {
				parts = append(parts, b.Batch.NewSlice(int64(from), int64(row)))
			}
			from = row + 1
		}
		if len(parts) > 0 {
			whole, err := joined(b.Batch.Schema(), parts)
			if err != nil {
				return out, err
			}
			out = append(out, transform.TableBatch{Table: b.Table, Batch: whole})
		}
	}
	return out, nil
}

func joined(schema *arrow.Schema, parts []arrow.RecordBatch) (arrow.RecordBatch, error) {
	defer releaseAll(parts)
	var rows int64
	for _, p := range parts {
		rows += p.NumRows()
	}
	columns := make([]arrow.Array, schema.NumFields())
	defer func() {
		for _, c := range columns {
			if c != nil {
				c.Release()
			}
		}
	}()
	for i := range columns {
		all := make([]arrow.Array, len(parts))
		for j, p := range parts {
			all[j] = p.Column(i)
		}
		var err error
		if columns[i], err = array.Concatenate(all, memory.DefaultAllocator); err != nil {
			return nil, err
		}
	}
	b := array.NewRecordBatch(schema, columns, rows)
	share(b)
	return b, nil
}
