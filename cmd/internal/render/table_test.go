package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// On a narrow terminal, a table first cuts its long texts, and then leaves out its last columns. Names in the first
// column and numbers are never cut.
func TestTableFits(t *testing.T) {
	t.Parallel()
	g := NewTable("stream", "verdict", "#fetched", "why", "#took")
	g.Add("accounting.customer_payments", "proven", 1234567, strings.Repeat("long ", 20), "12s")
	whole := g.widths()
	require.Equal(t, []int{28, 7, 9, maxCell, 4}, whole)
	for limit, want := range map[int][]int{
		200: whole,
		100: {28, 7, 9, 42, 4},
		78:  {28, 7, 9, 20, 4},
		70:  {28, 7, 9},
		60:  {28, 7, 9},
		30:  {28},
		5:   {28},
	} {
		require.Equal(t, want, g.fit(whole, limit), limit)
	}
	var out bytes.Buffer
	g.Render(&out)
	head, _, _ := strings.Cut(out.String(), "\n")
	require.Equal(t, []string{"stream", "verdict", "fetched", "why", "took"}, strings.Fields(head))
	require.Contains(t, out.String(), "…   12s\n")
}
