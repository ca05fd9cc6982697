package pipeline

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/batch"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/reject"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/transform"
)

// rejectedKeys contains the keys of the records that a pass rejected. The rows of these records do not count as
// missing, because the records arrived.
type rejectedKeys struct {
	keys    map[string]bool
	words   bool // some keys are not integers
	unknown bool // some keys are unknown, or there are too many
}

const maxRefused = 10_000

func (r *rejectedKeys) add(rejects []transform.Reject) {
	for _, j := range rejects {
		if !j.Record || r.unknown {
			continue
		}
		key, ok := reject.PlainKey(j.Key)
		if r.unknown = !ok || len(r.keys) == maxRefused; r.unknown {
			continue
		}
		if r.keys == nil {
			r.keys = map[string]bool{}
		}
		r.keys[key] = true
		r.words = r.words || !reject.Integer(key)
	}
}

// sort separates the rows that a sweep has listed as missing into two kinds. The first result is the number of rows
// whose records arrived but were rejected. The second result contains the keys of the other rows. The third result is
// false if the kind of some row is unknown. Invariant 12
func (r *rejectedKeys) sort(out load.Outcome) (there int64, others []arrow.RecordBatch, ok bool) {
	var listed int64
	for _, b := range out.Keys {
		listed += b.NumRows()
	}
	if r.unknown || listed != out.Missing {
		return 0, nil, false
	}
	others = []arrow.RecordBatch{}
	for _, b := range out.Keys {
		key := b.Column(0)
		if id := key.DataType().ID(); b.NumCols() != 1 || id != arrow.STRING && (id != arrow.INT64 || r.words) {
			batch.Release(others)
			return 0, nil, false
		}
		for i := range b.NumRows() {
			if r.keys[rowhash.Text(key, int(i))] {
				there++
				continue
			}
			others = append(others, b.NewSlice(i, i+1))
		}
	}
	return there, others, true
}

// gapReject returns a gap as a reject. Its ordinal is negative, so it differs from the ordinals of records.
func gapReject(g extract.Gap) transform.Reject {
	return transform.Reject{
		Stage: transform.StageExtract, ID: fmt.Sprintf("gap at %s, from %d", g.At, g.First),
		Ordinal: -1 - g.First, Pointer: "", Wanted: "an answer",
		Raw: g.Message, Reason: "the server did not return " + g.String(),
	}
}
