package pipeline

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow/array"

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
func (l *overlay) withhold(s schemas.Stream, batches []transform.TableBatch) (h withheld, err error) {
	h.batches = batches
	if l == nil || len(l.known) == 0 {
		return h, nil
	}
	out := map[int64]bool{}
	seen := map[string]bool{}
	for _, b := range batches {
		if b.Table.Name != s.Table.Name {
			continue
		}
		cells, err := rowhash.Columns(b.Batch, []string{s.Key[0], schemas.ColHash, schemas.ColOrdinal})
		if err != nil {
			return h, err
		}
		for row := range int(b.Batch.NumRows()) {
			key := rowhash.KeyText(cells[:1], row)
			if r := l.known[key]; r != nil {
				h.add(r, key, rowhash.Text(cells[1], row), seen[key])
				seen[key] = true
				out[cells[2].(*array.Int64).Value(row)] = true
			}
		}
	}
	if len(out) == 0 {
		return h, nil
	}
	h.own = true
	h.batches, err = without(batches, func(ordinal int64) bool { return out[ordinal] })
	return h, err
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

// settle ends the use of h after the other rows were committed.
func (h *withheld) settle(l *overlay, u *streamLock) {
	for _, key := range h.keys {
		l.known[key].inPass = true
	}
	if len(h.doubtful) > 0 {
		u.doubt.Store(true)
	}
	h.release()
}

func (h *withheld) give(batches []transform.TableBatch) {
	if h.own {
		releaseBatches(h.batches)
	}
	h.batches, h.own = batches, true
}

// addDoubtful adds to pos the records for which the pass and the deltas have different rows. They are requested
// again, because only the source knows which row is newer.
func (h *withheld) addDoubtful(pos cursor.Position) (cursor.Position, error) {
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
