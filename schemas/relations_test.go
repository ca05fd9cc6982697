package schemas

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRelations(t *testing.T) {
	t.Parallel()
	r, err := LoadRelations()
	require.NoError(t, err)
	for _, c := range []struct {
		table, column string
		want          []string
	}{
		{"sales_invoices", "customer_id", []string{"users_users"}},
		{"sales_invoices", "customer__id", []string{"users_users"}},
		{"sales_proposal", "proposal__warehouse_id", []string{"inventory_warehouses", "sales_warehouses"}},
		{"hr_employees", "employee_id", []string{}},
		{"hr_attendance", "employee_id", []string{"users_users"}},
		{"crm_deals", "stage_id", []string{"crm_deal_stages"}},
		{"crm_deals", "_context__stage__id", []string{"crm_deal_stages"}},
		{"v2_contacts", "owner_id", []string{}},
		{"crm_deals", "id", nil},
	} {
		require.Equal(t, c.want, r.Targets(c.table, c.column), "%s.%s", c.table, c.column)
	}
	require.Contains(t, r.AcceptedValues("sales_invoices", "status"), "overdue")
	require.Nil(t, r.AcceptedValues("sales_invoices", "notes"))
}

// TestRelationsNameTables checks that each target is the table of a readable stream with a key of one column.
func TestRelationsNameTables(t *testing.T) {
	t.Parallel()
	r, err := LoadRelations()
	require.NoError(t, err)
	catalogue, err := Load()
	require.NoError(t, err)
	streams := catalogue.Streams()
	for _, rule := range r.Relations {
		for _, to := range rule.To {
			i := slices.IndexFunc(streams, func(s Stream) bool { return s.Table.Name == to && s.Readable() })
			require.GreaterOrEqual(t, i, 0, to)
			require.Len(t, streams[i].Key, 1, to)
		}
	}
}
