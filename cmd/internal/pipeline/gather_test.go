package pipeline

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func (r *listReader) inSmallBatches(t *testing.T) StreamReport {
	t.Helper()
	c := r.source(1)
	defer c.Close()
	rep, err := Run(context.Background(), Config{
		Name: "nightly", Source: c, Streams: []schemas.Stream{r.stream},
		Destinations: []Destination{{Name: "warehouse", Destination: r.memory}},
		limits:       limits{batchRows: 1000, batchBytes: 1 << 20, groupRows: 1000, groupBytes: 1 << 20, groupAge: defaultLimits.groupAge},
	})
	require.NoError(t, err)
	return rep.Streams[0]
}

// After an error in the last part of a page, neither a row nor the cursor is stored. // Invariants 2, 6 and 11
func TestPageInPartsIsOneCommit(t *testing.T) {
	const n = 12_000
	r := newReader(t)
	body := things(1, n)
	r.begin(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })

	broken := strings.Replace(body, `"n11001"`, `{"x":tru}`, 1)
	require.NotEqual(t, body, broken)
	body = broken
	s := r.inSmallBatches(t)
	require.ErrorContains(t, s.Err, "(record 11000)")
	require.ErrorContains(t, s.Err, fmt.Sprintf("at byte %d ", strings.Index(broken, "tru}")))
	require.Empty(t, r.memory.Rows("x_things"))

	body = things(1, n)
	s = r.inSmallBatches(t)
	require.Equal(t, StatusComplete, s.Status, "%v", s.Err)
	require.EqualValues(t, n, s.Counts.Written)
	require.Equal(t, n, r.live())

	body = things(1, n, 7, 6000)
	s = r.inSmallBatches(t)
	require.Equal(t, []any{StatusComplete, int64(0), int64(2)}, []any{s.Status, s.Counts.Written, s.Counts.Deleted}, "%v", s.Err)
}

// Invariants 6 and 11
func TestPageOfTooManyRejects(t *testing.T) {
	r := newReader(t)
	r.begin(t, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `[{"id":1,"name":"n1"}`+strings.Repeat(",null", mostRejects+5000)+"]")
	})
	s := r.inSmallBatches(t)
	require.ErrorContains(t, s.Err, "more than 125000 of its records and values fit no column")
	require.Empty(t, r.memory.Rows("x_things"))
}

// The limit includes the rows of child tables. // Invariant 6
func TestPageOfTooManyRows(t *testing.T) {
	const n = 2_000
	var page strings.Builder
	for i := range n {
		fmt.Fprintf(&page, `,{"id":%d,"lines":[{"x":1}%s]}`, i+1, strings.Repeat(`,{"x":1}`, mostRows/n))
	}
	r := newReader(t)
	r.begin(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "["+page.String()[1:]+"]") })
	s := r.inSmallBatches(t)
	require.ErrorContains(t, s.Err, "map page 1: more than 1000000 rows")
	require.Empty(t, r.memory.Rows("x_things"))
}

// Invariant 6
func TestPageOfTooManyElements(t *testing.T) {
	page := func(elements int) string {
		list := `""` + strings.Repeat(`,""`, elements/4-1)
		return fmt.Sprintf(`[{"id":1,"a":[%[1]s]},{"id":2,"a":[%[1]s]},{"id":3,"a":[%[1]s]},{"id":4,"a":[%[1]s]}]`, list)
	}
	var body string
	r := newReader(t)
	r.begin(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
	body = page(5_000_000)
	s := r.inSmallBatches(t)
	require.ErrorContains(t, s.Err, "its rows take more than 112 MB")
	require.Empty(t, r.memory.Rows("x_things"))

	body = page(2_000_000)
	s = r.inSmallBatches(t)
	require.Equal(t, StatusComplete, s.Status, "%v", s.Err)
	require.Equal(t, 4, r.live())
}

// A page with too many columns for the limit of memory is refused. With a lower max_columns it is loaded.
// Invariants 6 and 11
func TestPageOfTooManyColumns(t *testing.T) {
	const n, columns, every = 20_000, 1_400, 2_500
	var wide, page strings.Builder
	for i := range columns {
		fmt.Fprintf(&wide, `,"k%d":%[1]d`, i)
	}
	for i := range n {
		fmt.Fprintf(&page, `,{"id":%d`, i+1)
		if i%every == 0 || i%every == every-1 {
			page.WriteString(wide.String())
		}
		page.WriteByte('}')
	}
	r := newReader(t)
	r.begin(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "["+page.String()[1:]+"]") })
	s := r.inSmallBatches(t)
	require.ErrorContains(t, s.Err, "its rows take more than 112 MB or 128 million cells in columns")
	require.Empty(t, r.memory.Rows("x_things"))

	r.stream.MaxColumns = 200
	s = r.inSmallBatches(t)
	require.Equal(t, StatusComplete, s.Status, "%v", s.Err)
	require.EqualValues(t, n, s.Counts.Written)
	require.Equal(t, n, r.live())
}

// A page with too many cells is refused, although nearly all of them are null and take no memory. // Invariant 15
func TestPageOfTooManyCells(t *testing.T) {
	const n, columns = 110_000, 1_400
	var page strings.Builder
	page.WriteString(`[{"id":0`)
	for i := range columns {
		fmt.Fprintf(&page, `,"k%d":%[1]d`, i)
	}
	for i := range n {
		fmt.Fprintf(&page, `},{"id":%d`, i+1)
	}
	r := newReader(t)
	r.begin(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, page.String()+"}]") })
	s := r.inSmallBatches(t)
	require.ErrorContains(t, s.Err, "128 million cells in columns")
	require.Empty(t, r.memory.Rows("x_things"))
}
