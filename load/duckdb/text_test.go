//go:build cgo && duckdb_arrow

package duckdb

import (
	"path/filepath"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
)

// TestKeyText checks how a text is written if it is part of a key of several columns. The engine and package transform,
// which writes such keys into child rows, must write the same characters.
func TestKeyText(t *testing.T) {
	d := openTest(t, filepath.Join(t.TempDir(), "keys.duckdb"), Options{})
	require.NoError(t, put(t.Context(), t, d, "run000000001", "", "a", nil))
	for from := rune(0); from < 0x3100; from += 64 {
		var text []rune
		for r := from; r < from+64; r++ {
			text = append(text, r)
		}
		want, err := jsontext.AppendQuote(nil, string(text))
		require.NoError(t, err)
		err = d.Query(t.Context(), "SELECT "+sqlmerge.KeyText(dialect{}, literal(string(text)), schemas.Text), func(b arrow.RecordBatch) error {
			require.Equal(t, string(want), b.Column(0).(*array.String).Value(0))
			return nil
		})
		require.NoError(t, err)
	}
}
