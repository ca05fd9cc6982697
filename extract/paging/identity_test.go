package paging

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/records"
)

// Several members may have a different value in each record. Of these members, the member with the shortest name
// identifies the records.
func TestIdentityIsStable(t *testing.T) {
	var rows []records.Row
	for i := range 3 {
		id := fmt.Sprint(i)
		rows = append(rows, records.Row{"owner_id": "a" + id, "id": id, "uuid": "u" + id, "tenant_id": "7", "name": "n" + id})
	}
	for range 50 {
		field, value := identityOf(rows)
		require.Equal(t, "id", field)
		require.Equal(t, "2", value)
	}
	for _, r := range rows {
		delete(r, "id")
		delete(r, "uuid")
	}
	field, _ := identityOf(rows)
	require.Equal(t, "owner_id", field)
}
