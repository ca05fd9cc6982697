package paging

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// If the stated total is reached with a full page, the pass requests the next page. A page is full if it has at least
// as many records as the first page. It does not matter whether the records of the page were requested one by one.
func TestFullPageAtTheTotal(t *testing.T) {
	for name, c := range map[string]struct {
		n, records int
		open       bool
	}{
		"full":                      {100, 100, true},
		"full, read one by one":     {100, 0, true},
		"larger":                    {101, 101, true},
		"not full":                  {99, 99, false},
		"full, some records twice":  {40, 100, true},
		"not full, read one by one": {99, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := Progress{Step: 100, Rows: 200, Total: 200}
			s := NoSignals
			s.Total, s.records = 200, c.records
			got := p.count(Position{Kind: KindOffset, At: "100"}, c.n, "", s)
			require.Equal(t, c.open, got.Rule == "", "%+v", got)
		})
	}
}
