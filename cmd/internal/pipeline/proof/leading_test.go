package proof

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The leading doubt is the first of the worst; a pass that is not in doubt has none.
func TestLeading(t *testing.T) {
	whole := Facts{Rule: "no_next", Pages: 3, FirstTotal: 5, LastTotal: 5, Distinct: 5}
	require.Empty(t, Leading(whole))
	doubted := whole
	doubted.Incomplete, doubted.Clashes = []string{"/partial: true"}, 1
	require.Equal(t, "incomplete answer", Leading(doubted))
	doubted.LastTotal, doubted.FirstTotal = 9, 9
	require.Equal(t, "total not met", Leading(doubted))
}
