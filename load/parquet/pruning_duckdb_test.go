//go:build cgo && duckdb_arrow && unix

package parquet

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/penstock-data/penstock/load/loadtest"
)

// The bounds in the footers must not exclude a file with matching rows. So each query must have the same result as on
// a copy of the rows in memory, which has no footers.
func TestEncoderPruning(t *testing.T) {
	e := newEngine(t)
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		at, one, other := twiceOurs(r, t, dir, fmt.Sprint(n))
		files := "read_parquet([" + sqlText(one.path()) + ", " + sqlText(other.path()) + "])"
		exec := func(q string) []loadtest.Row {
			rows, err := e.ask(t.Context(), q)
			require.NoError(r, err, q)
			return rows
		}
		exec("CREATE OR REPLACE TEMP TABLE copied AS FROM " + files)
		for _, c := range at.schema.Fields() {
			conditions := conditionsOn(c, exec)
			require.Equal(r, exec(counts("copied", conditions)), exec(counts(files, conditions)), "%s: %q", c.Type, conditions)
		}
	})
}

func conditionsOn(c arrow.Field, exec func(string) []loadtest.Row) []string {
	conditions := []string{c.Name + " IS NULL", c.Name + " IS NOT NULL"}
	if c.Type.ID() == arrow.LIST {
		return conditions
	}
	for _, row := range exec(fmt.Sprintf("SELECT DISTINCT typeof(%s) AS t, CAST(%[1]s AS VARCHAR) AS v FROM copied WHERE %[1]s IS NOT NULL LIMIT 4", c.Name)) {
		if strings.Contains(row["v"], "\x00") {
			continue
		}
		value := "CAST(" + sqlText(row["v"]) + " AS " + row["t"] + ")"
		for _, op := range []string{"=", "<", "<=", ">", ">=", "<>", "IS NOT DISTINCT FROM"} {
			conditions = append(conditions, c.Name+" "+op+" "+value)
		}
		conditions = append(conditions, c.Name+" IN ("+value+")")
	}
	return conditions
}

func counts(from string, conditions []string) string {
	var all []string
	for i, c := range conditions {
		all = append(all, fmt.Sprintf("SELECT %d AS i, count(*) AS n FROM %s WHERE %s", i, from, c))
	}
	return strings.Join(all, " UNION ALL ") + " ORDER BY i"
}

func sqlText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

func twiceOurs(r *rapid.T, tb testing.TB, dir, name string) (t *table, one, other *file) {
	t, of := drawn(r)
	rare := rapid.SampledFrom([]int{0, 1, 2, 9}).Draw(r, "nulls")
	var out [2]*file
	for i := range out {
		p, n := part(r, t.schema, of, rare)
		w := newFileWriter(tb, t, dir, fmt.Sprint(name, ".", i))
		require.NoError(r, w.addAll([][]arrow.Array{p}, []int{n}))
		var err error
		out[i], err = w.finish(tb.Context())
		require.NoError(r, err)
	}
	return t, out[0], out[1]
}
