//go:build cgo && duckdb_arrow

package browse

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/load"
	engine "github.com/penstock-data/penstock/load/duckdb"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// A sample of a large table has rows of its whole length.
func TestSampleHasNewRows(t *testing.T) {
	const count = 200_000
	db, err := engine.Open(t.Context(), engine.Options{Path: filepath.Join(t.TempDir(), "w.duckdb")})
	require.NoError(t, err)
	defer func() { require.NoError(t, db.Close()) }()
	rows := make([][]any, count)
	for i := range rows {
		rows[i] = []any{int64(i), nil}
	}
	table := schemas.Table{Name: "events", Mode: schemas.Merge, Key: []string{"id"}, Columns: arrow.NewSchema([]arrow.Field{schemas.Field("id", schemas.Int64, "/id"), schemas.Field(schemas.ColDeletedAt, schemas.Timestamp, "")}, nil)}
	require.NoError(t, load.CommitRows(t.Context(), db, state.Key{Pipeline: "nightly", Stream: "events"}, "", "1", load.Pass{Run: "r1", Whole: true}, table, rows...))
	d := &open.Reader{Destination: db, Name: "warehouse", Config: config.Destination{Name: "warehouse", Scheme: "duckdb"}}
	out := Table{Dialect: "DuckDB", Count: count, Names: []Column{{"id", "int64"}}, Columns: []TableColumn{{Column: Column{"id", "int64"}}}}
	require.NoError(t, out.read(t.Context(), d, "events", TableInput{Rows: 50}))
	require.True(t, out.Random)
	require.Equal(t, sampleRows, out.Sampled)
	greatest, err := strconv.Atoi(out.Columns[0].Greatest)
	require.NoError(t, err)
	require.Greater(t, greatest, count*3/4)
}
