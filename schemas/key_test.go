package schemas

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeyColumns(t *testing.T) {
	for part, want := range map[string]string{
		"id":                 "id",
		"ID":                 "id",
		"Id":                 "id",
		"_id":                "_id",
		"objectId":           "object_id",
		"first-name":         Column("first-name"),
		"/customer/ID":       "customer__id",
		"_context__stage":    "_context__stage",
		Column("größe"):      Column("größe"),
		Column("Kunden Nr."): Column("Kunden Nr."),
	} {
		require.Equal(t, want, KeyColumn(part), part)
	}
	require.Nil(t, KeyColumns(nil))
	require.Equal(t, []string{"order_id", "line_no"}, KeyColumns([]string{"OrderID", "lineNo"}))
}
