package board

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/browse"
)

// A null is a gap in a chart, and not 0.
func TestChartHasGaps(t *testing.T) {
	r := browse.Result{Columns: []browse.Column{{Name: "day", Type: "date"}, {Name: "n", Type: "int64"}},
		Rows: [][]any{{"2026-03-01", int64(4)}, {"2026-03-02", int64(2)}, {"2026-03-03", nil}, {"2026-03-04", int64(1)}}}
	line := chartOf(r).Paths[0].D
	require.Equal(t, 2, strings.Count(line, "M"), line)
	require.Equal(t, 1, strings.Count(line, "L"), line)
	r.Columns[0].Type = "text"
	require.Equal(t, 3, strings.Count(chartOf(r).Paths[0].D, "Z"))
}
