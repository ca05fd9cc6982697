package deltas

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/overlay"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/rowhash"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

func scan(t *testing.T, d load.Destination, table string, columns []string, visit func(row []string)) {
	t.Helper()
	err := d.Scan(t.Context(), table, columns, func(b arrow.RecordBatch) error {
		for i := range int(b.NumRows()) {
			row := make([]string, len(columns))
			for c := range columns {
				if row[c] = rowhash.Text(b.Column(c), i); row[c] == "" && !b.Column(c).IsNull(i) {
					row[c] = b.Column(c).ValueStr(i)
				}
			}
			visit(row)
		}
		return nil
	})
	require.NoError(t, err)
}

func TestDeltasApplyEvents(t *testing.T) {
	m := newModel(6)
	r := newDeltaRig(t, m)
	r.sync()
	m.records[2] = 5
	m.send(m.event("updated", 2))
	delete(m.records, 3)
	m.send(m.event("deleted", 3))
	m.records[9] = 1
	m.send(m.event("created", 9))
	rep := r.apply()
	r.equal()
	require.Equal(t, 3, rep.Events)
	require.EqualValues(t, 2, rep.Written)
	require.EqualValues(t, 1, rep.Deleted)
	require.Equal(t, 3, rep.Refetches)
	require.EqualValues(t, 3, rep.Through)
	require.Zero(t, r.sync().Totals().Counts.Written, "rows written because of events equal the rows of the list")
}

// A check that holds rows back does not apply to deltas: an event would be tried again until it is given up.
func TestDeltasHoldNothingBack(t *testing.T) {
	stream := schemas.Stream{Name: "v2.contacts"}
	held := []schemas.Check{{Name: "names", Kind: schemas.CheckNotNull, Columns: []string{"name"}, Hold: true}}
	x := &delta{Deltas: &Deltas{conf: pipeline.Config{Checks: map[string][]schemas.Check{stream.Name: held}}}, q: &queue{stream: stream}}
	require.NotEmpty(t, x.conf.OncePass(stream, "r1").Hold)
	require.Empty(t, x.passOf("a", "r1").Hold)
	x.overlays = map[string]*overlay.Overlay{"a": {Pass: load.Pass{Run: "r2", Hold: held}}}
	require.Empty(t, x.passOf("a", "r1").Hold)
	require.NotEmpty(t, x.overlays["a"].Pass.Hold, "the pass itself still holds rows back")
}
