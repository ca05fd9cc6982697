package records

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Thousands of references would give millions of pairs. // Invariant 15
func TestPairsOfReferencesAreBounded(t *testing.T) {
	for _, tt := range []struct {
		others int
		want   []string
	}{
		{0, []string{"deal_id", "product_id"}},
		{maxReferences - 2, []string{"deal_id", "product_id"}},
		{MaxNames - 2, nil},
	} {
		var rows []Row
		for i := range MaxRows {
			r := Row{"deal_id": fmt.Sprint(i / 40), "product_id": fmt.Sprint(i % 40)}
			for k := range tt.others {
				r[fmt.Sprintf("o%d_id", k)] = "1"
			}
			rows = append(rows, r)
		}
		rows[MaxRows-1] = Row{"deal_id": "24", "product_id": "39"}
		began := time.Now()
		require.Equal(t, tt.want, pairOf(rows))
		require.Less(t, time.Since(began), 5*time.Second)
	}
}
