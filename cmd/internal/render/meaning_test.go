package render

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func TestMeaning(t *testing.T) {
	for source, want := range map[string]string{
		"/balance_amount":       "balance amount",
		"/customer/name":        "name of its customer",
		"/shipping/address/zip": "zip of its address of its shipping",
		"/_context/pipeline_id": "the pipeline id it was read for",
		"/_context/stage/name":  "name of the stage it was found in",
		"/a~1b":                 "a/b",
	} {
		require.Equal(t, want, Meaning(schemas.Field("column", schemas.Text, source)), source)
	}
	require.Contains(t, Meaning(schemas.Field(schemas.ColDeletedAt, schemas.Timestamp, "")), "null for a row that is not deleted")
}
