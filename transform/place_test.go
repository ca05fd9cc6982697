package transform

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

// The member items is an array of objects in one record, and an object in another record. In both records, it has a
// list of taxes. The taxes of the two records are stored in two different tables, whichever record comes first.
func TestListOrObject(t *testing.T) {
	many := `{"id":1,"items":[{"n":1,"taxes":[{"v":1}]}]}`
	one := `{"id":2,"items":{"n":2,"taxes":[{"v":2}]}}`
	s := schemas.Stream{Table: schemas.Table{Name: "x", Key: []string{"id"}}, Name: "x.x"}
	levels := func(known []schemas.Table, records string) (map[string]bool, []schemas.Table) {
		m := NewMapper(s, Stamp{Run: "r", Via: "poll"}, known)
		defer m.Close()
		require.NoError(t, appendAll(m, []byte(records)))
		batches, rejects := m.Flush()
		require.Empty(t, rejects)
		deep := map[string]bool{}
		for _, b := range batches {
			require.NotContains(t, deep, b.Table.Name)
			deep[b.Table.Name] = b.Batch.Schema().HasField(schemas.ColRoot)
			b.Batch.Release()
		}
		return deep, m.Tables()
	}
	first, known := levels(nil, "["+many+","+one+"]")
	require.Len(t, first, 4)
	require.True(t, first["x__items__taxes"], "the table that comes first has the plain name")
	second, _ := levels(known, "["+one+","+many+"]")
	require.Equal(t, first, second)
	third, _ := levels(known, "["+one+"]")
	require.Len(t, third, 2)
	require.NotContains(t, third, "x__items__taxes")
}
