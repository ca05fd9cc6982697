package load

import (
	"fmt"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

// The time that Fit takes is linear in the number of columns. // Invariant 15
func TestFitOfManyColumns(t *testing.T) {
	wide := func(from, to int) schemas.Table {
		var fields []arrow.Field
		for i := from; i < to; i++ {
			fields = append(fields, schemas.Field(fmt.Sprintf("column_%08d", i), schemas.Int64, fmt.Sprintf("/c%d", i)))
		}
		return schemas.Table{Name: "t", Columns: arrow.NewSchema(fields, nil)}
	}
	const n = 40_000
	began := time.Now()
	p, err := Fit(wide(0, n), wide(n/2, n+n/2))
	require.NoError(t, err)
	require.Len(t, p.Add, n/2)
	require.Equal(t, n+n/2, p.Table.Columns.NumFields())
	require.Equal(t, "column_00059999", p.Add[n/2-1].Name)
	require.Less(t, time.Since(began), 10*time.Second) // if Fit searched the list of all columns for each column, it would take 25 s
}
