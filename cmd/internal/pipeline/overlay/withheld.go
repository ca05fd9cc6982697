package overlay

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/batch"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform"
)

// Withheld splits the rows of a group for one destination. The rows in the field Batches are written. The other rows
// are withheld, because deltas have committed their records during the pass.
type Withheld struct {
	Batches  []transform.TableBatch // the rows to write
	own      bool                   // batches are copies, which must be released
	Fresh    int64                  // withheld rows of records that the pass had not read before
	Again    int64                  // withheld rows of records that the pass had read before
	doubtful []cursor.Record        // records whose withheld row differs from the delta's row
	keys     []string
}

// Release releases the batches that are copies.
func (h *Withheld) Release() {
	h.Give(nil)
	*h = Withheld{}
}

// Withhold removes the rows of records that deltas have committed during the pass, because the page may have been
// requested before the deltas were committed. // Invariant 8
func (l *Overlay) Withhold(s schemas.Stream, batches []transform.TableBatch) (h Withheld, err error) {
	h.Batches = batches
	if l == nil || len(l.known) == 0 {
		return h, nil
	}
	out := map[int64]bool{}
	seen := map[string]bool{}
	err = batch.EachRow(batches, s.Table.Name, []string{s.Key[0], schemas.ColHash, schemas.ColOrdinal}, func(cells []arrow.Array, row int) {
		key := rowhash.KeyText(cells[:1], row)
		if r := l.known[key]; r != nil {
			h.add(r, key, rowhash.Text(cells[1], row), seen[key])
			seen[key] = true
			out[cells[2].(*array.Int64).Value(row)] = true
		}
	})
	if err != nil || len(out) == 0 {
		return h, err
	}
	h.own = true
	h.Batches, err = batch.Without(batches, func(ordinal int64) bool { return out[ordinal] })
	return h, err
}

func (h *Withheld) add(r *deltaRow, key, hash string, before bool) {
	h.keys = append(h.keys, key)
	if r.inPass || before {
		h.Again++
	} else {
		h.Fresh++
	}
	if hash != r.Hash {
		h.doubtful = append(h.doubtful, cursor.Record{Key: r.RequestKey, At: r.Event, Gone: r.Hash == ""})
	}
}

// Settle must be called after the rows in Batches were committed. It notes that the pass has read the withheld records,
// and releases the batches.
func (h *Withheld) Settle(l *Overlay, u *Lock) {
	for _, key := range h.keys {
		l.known[key].inPass = true
	}
	if len(h.doubtful) > 0 {
		u.doubt.Store(true)
	}
	h.Release()
}

// Give replaces Batches with batches that h must release. It releases the previous batches if they were copies.
func (h *Withheld) Give(batches []transform.TableBatch) {
	if h.own {
		batch.ReleaseTables(h.Batches)
	}
	h.Batches, h.own = batches, true
}

// AddDoubtful adds to pos the records for which the pass and the deltas have different rows. They are requested
// again, because only the source knows which row is newer.
func (h *Withheld) AddDoubtful(pos cursor.Position) (cursor.Position, error) {
	if len(h.doubtful) == 0 {
		return pos, nil
	}
	a, err := pos.Applied()
	if err != nil {
		return pos, err
	}
	for _, o := range h.doubtful {
		if !slices.ContainsFunc(a.Open, func(have cursor.Record) bool { return have.Key == o.Key }) {
			a.Put(o)
		}
	}
	return pos.WithApplied(a), nil
}
