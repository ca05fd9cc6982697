package loadtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// invoices is a table with a column of each type that a check can compare.
var invoices = root("invoices", []string{"id"}, column("id", schemas.Int64), column("number", schemas.Text), column("status", schemas.Text),
	column("paid", schemas.Bool), column("amount", decimal(16, 2)), column("due", schemas.Date), column("created", schemas.Timestamp), column("document", schemas.JSON))

func invoice(run string, ordinal int, cells Row) Row {
	hash := "h"
	for _, c := range []string{"id", "number", "status", "paid", "amount", "due", "created"} {
		hash += cells[c]
	}
	return with(run, ordinal, hash, cells)
}

// checking returns a fixture with the table invoices, or skips the test if the destination cannot check rows. The
// invoice 4 is deleted, so no check counts it.
func checking(t *testing.T, d Driver) *fixture {
	b := newFixture(t, d)
	if _, able := b.dest.(load.Checker); !able {
		t.Skip("the destination cannot check rows")
	}
	b.commit(load.Sweep{}, put{invoices, []Row{
		invoice(b.pass.Run, 0, Row{"id": "1", "number": "a", "status": "open", "paid": "false", "amount": "10.50", "due": "2026-01-31", "created": "2026-11-20T08:00:00Z"}),
		invoice(b.pass.Run, 1, Row{"id": "2", "number": "a", "status": "it's \"paid\"", "paid": "true", "amount": "-9.00", "due": "2026-02-28", "created": "2026-11-19T08:00:00.000001Z"}),
		invoice(b.pass.Run, 2, Row{"id": "3", "number": "c", "amount": "100.00", "due": "2026-03-31", "document": "{}"}),
		invoice(b.pass.Run, 3, Row{"id": "4", "number": "c", "status": "gone", "amount": "1000000.00"}),
	}})
	b.run(2)
	b.commit(sweep("invoices"), put{invoices, []Row{
		invoice(b.pass.Run, 0, Row{"id": "1", "number": "a", "status": "open", "paid": "false", "amount": "10.50", "due": "2026-01-31", "created": "2026-11-20T08:00:00Z"}),
		invoice(b.pass.Run, 1, Row{"id": "2", "number": "a", "status": "it's \"paid\"", "paid": "true", "amount": "-9.00", "due": "2026-02-28", "created": "2026-11-19T08:00:00.000001Z"}),
		invoice(b.pass.Run, 2, Row{"id": "3", "number": "c", "amount": "100.00", "due": "2026-03-31", "document": "{}"}),
	}})
	return b
}

func (b *fixture) check(c schemas.Check) load.CheckOutcome {
	b.Helper()
	out, there, err := b.dest.(load.Checker).CheckRows(b.Context(), b.key, "invoices", c, noon)
	require.NoError(b, err)
	require.True(b, there)
	return out
}

// testChecks checks single rows of each type.
func testChecks(t *testing.T, d Driver) {
	b := checking(t, d)
	for _, c := range []struct {
		name string
		schemas.Check
		want load.CheckOutcome
	}{
		{"no nulls", schemas.Check{Kind: schemas.CheckNotNull, Columns: []string{"number", "amount"}}, load.CheckOutcome{Rows: 3}},
		{"a null", schemas.Check{Kind: schemas.CheckNotNull, Columns: []string{"number", "status"}}, load.CheckOutcome{Rows: 3, Failing: 1, Examples: []string{"[3]"}}},
		{"unique", schemas.Check{Kind: schemas.CheckUnique, Columns: []string{"id", "number"}}, load.CheckOutcome{Rows: -1}},
		{"not unique", schemas.Check{Kind: schemas.CheckUnique, Columns: []string{"number"}}, load.CheckOutcome{Rows: -1, Failing: 2, Examples: []string{`["a"]`}}},
		{"nulls are not equal", schemas.Check{Kind: schemas.CheckUnique, Columns: []string{"status"}}, load.CheckOutcome{Rows: -1}},
		{"accepted", schemas.Check{Kind: schemas.CheckAccepted, Columns: []string{"status"}, Values: []string{"open", `it's "paid"`}}, load.CheckOutcome{Rows: 3}},
		{"not accepted", schemas.Check{Kind: schemas.CheckAccepted, Columns: []string{"status"}, Values: []string{"open"}}, load.CheckOutcome{Rows: 3, Failing: 1, Examples: []string{"[2]"}}},
		{"accepted boolean", schemas.Check{Kind: schemas.CheckAccepted, Columns: []string{"paid"}, Values: []string{"false"}}, load.CheckOutcome{Rows: 3, Failing: 1, Examples: []string{"[2]"}}},
		{"accepted numbers", schemas.Check{Kind: schemas.CheckAccepted, Columns: []string{"amount"}, Values: []string{"10.5", "-9"}}, load.CheckOutcome{Rows: 3, Failing: 1, Examples: []string{"[3]"}}},
		{"in range", schemas.Check{Kind: schemas.CheckRange, Columns: []string{"amount"}, Min: "-9", Max: "100"}, load.CheckOutcome{Rows: 3}},
		{"out of range", schemas.Check{Kind: schemas.CheckRange, Columns: []string{"amount"}, Min: "0", Max: "99.99"}, load.CheckOutcome{Rows: 3, Failing: 2, Examples: []string{"[2]", "[3]"}}},
		{"dates out of range", schemas.Check{Kind: schemas.CheckRange, Columns: []string{"due"}, Min: "2026-02-28"}, load.CheckOutcome{Rows: 3, Failing: 1, Examples: []string{"[1]"}}},
		{"times out of range", schemas.Check{Kind: schemas.CheckRange, Columns: []string{"created"}, Max: "2026-11-19T08:00:00Z"}, load.CheckOutcome{Rows: 3, Failing: 2, Examples: []string{"[1]", "[2]"}}},
	} {
		c.Name = c.name
		require.Equal(t, c.want, b.check(c.Check), c.name)
	}
	for text, c := range map[string]schemas.Check{
		"no column numbr":               {Kind: schemas.CheckNotNull, Columns: []string{"numbr"}},
		`"ten" is not a number`:         {Kind: schemas.CheckRange, Columns: []string{"amount"}, Min: "ten"},
		`"1); DROP" is not a number`:    {Kind: schemas.CheckAccepted, Columns: []string{"amount"}, Values: []string{"1); DROP"}},
		"a range needs numbers":         {Kind: schemas.CheckRange, Columns: []string{"number"}, Min: "1"},
		"compare values of the type":    {Kind: schemas.CheckAccepted, Columns: []string{"document"}, Values: []string{"{}"}},
		`"2026-13-01" is not a date`:    {Kind: schemas.CheckRange, Columns: []string{"due"}, Min: "2026-13-01"},
		`"yesterday" is neither a date`: {Kind: schemas.CheckRange, Columns: []string{"created"}, Min: "yesterday"},
	} {
		_, _, err := b.dest.(load.Checker).CheckRows(t.Context(), b.key, "invoices", c, noon)
		require.ErrorContains(t, err, text)
	}
	_, there, err := b.dest.(load.Checker).CheckRows(t.Context(), b.key, "absent", schemas.Check{Kind: schemas.CheckRows}, noon)
	require.NoError(t, err)
	require.False(t, there)
}

// testChecksOfTables checks the number of rows, and the newest time.
func testChecksOfTables(t *testing.T, d Driver) {
	b := checking(t, d)
	fresh := schemas.Check{Name: "fresh", Kind: schemas.CheckFresh, Columns: []string{"created"}, Within: 4 * time.Hour}
	require.Zero(t, b.check(fresh).Failing, "the newest invoice is four hours old")
	fresh.Within--
	require.Equal(t, load.CheckOutcome{Rows: -1, Failing: 1, Detail: "the newest time in created is 2026-11-20T08:00:00Z, 4h0m0s ago; the limit is 3h59m59.999999999s"}, b.check(fresh))
	rows := schemas.Check{Name: "rows", Kind: schemas.CheckRows, Min: "3", Max: "3", Change: 25}
	require.Equal(t, load.CheckOutcome{Rows: 3}, b.check(rows), "there is no earlier result")
	result := func(at time.Time, stream string, rows int) []any {
		return []any{"r1", b.key.Pipeline, stream, "invoices", "rows", "rows", "warn", at, "ok", 0, rows, nil, nil, 1}
	}
	b.writeOwn(load.Checks, result(noon.Add(-2*time.Hour), b.key.Stream, 100), result(noon.Add(-time.Hour), b.key.Stream, 4), result(noon, "other", 100))
	require.Equal(t, load.CheckOutcome{Rows: 3}, b.check(rows), "3 rows are 25 % fewer than 4")
	rows.Change = 24
	require.Equal(t, load.CheckOutcome{Rows: 3, Failing: 1, Detail: "3 rows, and 4 after the last run: a change of 25 %, more than 24 %"}, b.check(rows))
	rows = schemas.Check{Name: "rows", Kind: schemas.CheckRows, Min: "4"}
	require.Equal(t, load.CheckOutcome{Rows: 3, Failing: 1, Detail: "3 rows, fewer than 4"}, b.check(rows))
	rows = schemas.Check{Name: "rows", Kind: schemas.CheckRows, Max: "2"}
	require.Equal(t, load.CheckOutcome{Rows: 3, Failing: 1, Detail: "3 rows, more than 2"}, b.check(rows))
}

// testChecksHold lets rows fail checks that hold commits back. The commit keeps neither the rows nor the cursor, and a
// later commit without these rows succeeds. Rows that were stored before do not count.
func testChecksHold(t *testing.T, d Driver) {
	for i, mode := range modes {
		for _, keyed := range d.kinds(i) {
			t.Run(string(mode)+map[bool]string{true: "", false: " without a key"}[keyed], func(t *testing.T) { testCheckHolds(t, d, mode, keyed) })
		}
	}
}

func testCheckHolds(t *testing.T, d Driver, mode schemas.Mode, keyed bool) {
	b := newFixture(t, d)
	if _, able := b.dest.(load.Checker); !able {
		t.Skip("the destination cannot check rows")
	}
	table := invoices
	if table.Mode = mode; !keyed {
		table.Key = nil
	}
	old := invoice(b.pass.Run, 0, Row{"id": "1", "number": "a", "amount": "-1.00"})
	b.commit(load.Sweep{}, put{table, []Row{old}})
	before := b.rows("invoices", schemas.ColSyncedAt)
	held := func(want string, rows ...Row) {
		t.Helper()
		b.run(2)
		b.pass.Claim.Table, b.pass.Hold = "invoices", b.held()
		x := b.begin()
		b.write(x, put{table, rows})
		_, err := x.Apply(t.Context(), load.Sweep{})
		require.NoError(t, err)
		err = x.Commit(t.Context(), "held")
		var e *load.CheckError
		require.ErrorAs(t, err, &e)
		require.Equal(t, want, e.Failed[0].Name)
		require.EqualValues(t, 1, e.Failed[0].Failing/map[bool]int64{true: 2, false: 1}[want == "numbers"])
		c, err := b.dest.Cursor(t.Context(), b.key)
		require.NoError(t, err)
		require.Equal(t, b.cursor, c)
		require.Equal(t, before, b.rows("invoices", schemas.ColSyncedAt))
	}
	run := runID(2)
	good := invoice(run, 1, Row{"id": "2", "number": "b", "amount": "5.00"})
	held("amounts", good, invoice(run, 2, Row{"id": "3", "number": "c", "amount": "-5.00"}))
	held("numbers", good, invoice(run, 2, Row{"id": "3", "number": "a", "amount": "5.00"}))
	held("given", good, invoice(run, 2, Row{"id": "3", "amount": "5.00"}))
	b.run(2)
	b.pass.Claim.Table, b.pass.Hold = "invoices", b.held()
	out := b.commit(load.Sweep{}, put{table, []Row{invoice(run, 0, Row{"id": "1", "number": "a", "amount": "-1.00"}), good}})
	require.EqualValues(t, 1, out.Inserted, "the unchanged row fails a check, and holds nothing back")
	b.pass.Hold = []schemas.Check{{Name: "later", Kind: schemas.CheckRange, Columns: []string{"later"}, Min: "0"}}
	b.commit(load.Sweep{}, put{table, []Row{invoice(run, 3, Row{"id": "4", "number": "d", "amount": "5.00"})}})
	b.pass.Hold = []schemas.Check{{Name: "later", Kind: schemas.CheckNotNull, Columns: []string{"later"}}}
	x := b.begin()
	b.write(x, put{table, []Row{invoice(run, 4, Row{"id": "5", "number": "e", "amount": "5.00"})}})
	require.ErrorContains(t, x.Commit(t.Context(), "held"), "1 row fails")
	b.pass.Hold = []schemas.Check{{Name: "texts", Kind: schemas.CheckRange, Columns: []string{"number"}, Min: "0"}}
	x = b.begin()
	b.write(x, put{table, []Row{invoice(run, 4, Row{"id": "5", "number": "e", "amount": "5.00"})}})
	var e *load.CheckError
	err := x.Commit(t.Context(), "held")
	require.ErrorAs(t, err, &e, "a later attempt would fail in the same way")
	require.ErrorContains(t, err, "texts: it cannot run: column number has the type")
}

// held returns checks that hold rows of the table invoices back.
func (b *fixture) held() []schemas.Check {
	return []schemas.Check{
		{Name: "amounts", Kind: schemas.CheckRange, Columns: []string{"amount"}, Min: "0"},
		{Name: "numbers", Kind: schemas.CheckUnique, Columns: []string{"number"}},
		{Name: "given", Kind: schemas.CheckNotNull, Columns: []string{"number"}},
	}
}

// testChecksShared lets two sources share a table. A check and a commit test only the rows of their source.
func testChecksShared(t *testing.T, d Driver) {
	if !sharing(t, d) {
		t.Skip("tables cannot be shared")
	}
	_, all := workspaces(t, d, "ann", "bob")
	a, b := all[0], all[1]
	by, able := a.dest.(load.Checker)
	if able {
		_, _, err := by.CheckRows(t.Context(), a.key, "invoices", schemas.Check{Kind: schemas.CheckRows}, noon)
		able = err == nil
	}
	if !able {
		t.Skip("the destination cannot check rows")
	}
	for _, one := range all {
		one.pass.Claim.Table, one.pass.Hold = "invoices", one.held()
		one.commit(load.Sweep{}, put{invoices, []Row{invoice(one.pass.Run, 0, Row{"id": "1", "number": "a", "amount": "5.00"})}})
	}
	a.pass.Hold = nil
	a.run(2)
	a.commit(load.Sweep{}, put{invoices, []Row{invoice(a.pass.Run, 0, Row{"id": "2", "number": "b", "amount": "-5.00"})}})
	amounts := a.held()[0]
	require.Equal(t, load.CheckOutcome{Rows: 2, Failing: 1, Examples: []string{"[2]"}}, a.check(amounts))
	require.Equal(t, load.CheckOutcome{Rows: 1}, b.check(amounts))
}
