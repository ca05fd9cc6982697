package checks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// asked is a querier that returns the same rows for each query.
type asked struct {
	sql  string
	rows arrow.RecordBatch
	err  error
}

func (a *asked) Query(_ context.Context, sql string, visit func(arrow.RecordBatch) error) error {
	a.sql = sql
	if a.err != nil {
		return a.err
	}
	return visit(a.rows)
}

func TestQuery(t *testing.T) {
	table := schemas.Table{Name: "t", Columns: arrow.NewSchema([]arrow.Field{
		schemas.Field("id", schemas.Int64, ""), schemas.Field("name", schemas.Text, ""), schemas.Field("at", schemas.Timestamp, ""),
	}, nil)}
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var rows [][]any
	for i := range 7 {
		rows = append(rows, []any{i, `it's "7"`, nil})
	}
	b, err := load.Rows(table, rows...)
	require.NoError(t, err)
	defer b.Release()
	q := &asked{rows: b}
	of := Table{Name: "crm_leads", Source: "o'neil", Query: func(_ context.Context, use func(load.Querier) error) error { return use(q) }}
	c := schemas.Check{Name: "ends", Kind: schemas.CheckSQL, SQL: "SELECT * FROM {table} WHERE s = {source}"}
	r, there := of.Run(t.Context(), c, func() time.Time { return noon })
	require.True(t, there)
	require.Equal(t, "SELECT * FROM crm_leads WHERE s = 'o''neil'", q.sql)
	require.Equal(t, Failed, r.Outcome)
	require.EqualValues(t, 7, r.Failing)
	require.Len(t, r.Examples, load.MostExamples)
	require.JSONEq(t, `{"id":0,"name":"it's \"7\"","at":null}`, string(r.Examples[0]))
	of.Current = true
	_, _ = of.Run(t.Context(), c, func() time.Time { return noon })
	require.Equal(t, "SELECT * FROM crm_leads_current WHERE s = 'o''neil'", q.sql)
	q.err = errors.New("no such column\nLINE 1")
	r, there = of.Run(t.Context(), c, func() time.Time { return noon })
	require.True(t, there, "an error is a result")
	require.Equal(t, "ends could not run: no such column", r.String())
	of.Query = nil
	r, _ = of.Run(t.Context(), c, func() time.Time { return noon })
	require.Equal(t, Errors, r.Outcome)
}

func TestOfError(t *testing.T) {
	noon := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	check := schemas.Check{Name: "amounts", Kind: schemas.CheckRange, Hold: true}
	err := fmt.Errorf("commit: %w", &load.CheckError{Table: "sales", Failed: []load.FailedCheck{{Check: check, CheckOutcome: load.CheckOutcome{Rows: 9, Failing: 2, Examples: []string{"[1]", "[2]"}}}}})
	require.EqualError(t, err, "commit: checks hold back rows of sales: amounts: 2 rows fail", "examples are values of rows")
	all := OfError(err, noon)
	require.Len(t, all, 1)
	require.Equal(t, "amounts: 2 rows fail", all[0].String())
	require.Equal(t, []any{"r1", "nightly", "sales.orders", "sales", "amounts", "range", "hold", noon, "held", int64(2), int64(9), `[[1],[2]]`, nil, int64(0)},
		all[0].Row("r1", state.Key{Pipeline: "nightly", Stream: "sales.orders"}, "sales"))
	b, err := load.Rows(load.Checks, all[0].Row("r1", state.Key{Pipeline: "nightly", Stream: "sales.orders"}, "sales"))
	require.NoError(t, err)
	b.Release()
	require.Empty(t, OfError(errors.New("disk full"), noon))
	text, err := json.Marshal(all[0])
	require.NoError(t, err)
	require.NotContains(t, string(text), "[1]", "examples are values of rows")
}

func TestNoTable(t *testing.T) {
	of := Table{Name: "t", Checker: noTables{}}
	for want, c := range map[string]schemas.Check{
		"a: the table does not exist: 0 rows, fewer than 1": {Name: "a", Kind: schemas.CheckRows, Min: "1"},
		"b: the table does not exist":                       {Name: "b", Kind: schemas.CheckFresh, Within: time.Hour},
		"c could not run: the table does not exist":         {Name: "c", Kind: schemas.CheckNotNull},
	} {
		r, there := of.Run(t.Context(), c, time.Now)
		require.False(t, there)
		require.Equal(t, want, r.String())
		require.False(t, r.Good())
	}
	r, _ := of.Run(t.Context(), schemas.Check{Name: "d", Kind: schemas.CheckRows, Max: "9"}, time.Now)
	require.True(t, r.Good())
	require.Zero(t, *r.Rows)
}

// noTables is a destination without tables.
type noTables struct{}

func (noTables) CheckRows(context.Context, state.Key, string, schemas.Check, time.Time) (load.CheckOutcome, bool, error) {
	return load.CheckOutcome{}, false, nil
}
