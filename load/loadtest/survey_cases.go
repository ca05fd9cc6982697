package loadtest

import (
	"context"
	"errors"
	"strconv"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// survey surveys streams of the fixture's destination. It skips the test if the destination cannot do so.
func (b *fixture) survey(streams ...load.Surveyed) load.Surveyor {
	b.Helper()
	if !b.driver.Surveys {
		b.Skip("the destination cannot survey")
	}
	s := b.dest.(load.Surveyor)
	require.NoError(b, s.Survey(b.Context(), streams, nil))
	return s
}

// textsOf returns the texts of a column.
func textsOf(t testing.TB, b arrow.RecordBatch, column string) (texts []string) {
	t.Helper()
	require.NotNil(t, b)
	at := b.Schema().FieldIndices(column)
	require.Len(t, at, 1)
	for i := range int(b.NumRows()) {
		texts = append(texts, b.Column(at[0]).ValueStr(i))
	}
	return texts
}

func digestOf(t testing.TB, table schemas.Table, rows ...Row) string {
	t.Helper()
	var d load.RowDigest
	batch := Batch(t, table, rows...)
	defer batch.Release()
	require.NoError(t, d.Add(table, batch))
	return d.Sum()
}

// testSurvey compares the results of a survey with the results of the other methods. It also compares the survey's
// digest with the digest of the current rows.
func testSurvey(t *testing.T, d Driver) {
	number := root("numbers", []string{"id"}, column("id", schemas.Int64), column("name", schemas.Text))
	bare := root("bare", nil, column("name", schemas.Text))
	for _, mode := range []schemas.Mode{schemas.Merge, schemas.Replace, schemas.History} {
		for _, table := range []schemas.Table{people, number, bare} {
			t.Run(string(mode)+" "+table.Name, func(t *testing.T) {
				b := newFixture(t, d)
				table.Mode = mode
				b.survey(load.Surveyed{Key: b.key, Table: table.Name})
				row := func(ordinal int, id, name string) Row {
					r := person(b.pass.Run, ordinal, id, name)
					if len(table.Key) == 0 {
						delete(r, "id")
					}
					return r
				}
				b.commit(load.Sweep{}, put{table, []Row{row(0, "1", "ann"), row(1, "2", "böb"), row(2, "10", "cid")}})
				b.run(2)
				b.commit(sweep(table.Name), put{table, []Row{row(0, "10", "cid"), row(1, "2", "bea")}})
				b.reopen()
				s := b.survey(load.Surveyed{Key: b.key, Table: table.Name, Columns: []string{"name"}})
				st, ok := s.SurveyOf(b.key)
				require.True(t, ok)
				require.Equal(t, b.cursor, st.Cursor)
				tables, err := b.dest.Tables(t.Context(), table.Name)
				require.NoError(t, err)
				require.Equal(t, tables, st.Tables)
				at, err := b.dest.StreamState(t.Context(), b.key, table.Name)
				require.NoError(t, err)
				require.Equal(t, at, st.State)
				require.EqualValues(t, 2, st.Rows)
				require.Equal(t, digestOf(t, table, row(0, "2", "bea"), row(1, "10", "cid")), st.Digest)
				require.NotEqual(t, digestOf(t, table, row(0, "2", "bea"), row(1, "10", "cyd")), st.Digest)
				require.False(t, st.Forgotten)
				require.ElementsMatch(t, []string{"bea", "cid"}, textsOf(t, st.Current, "name"))
				require.ElementsMatch(t, []string{row(0, "2", "bea")[schemas.ColHash], row(1, "10", "cid")[schemas.ColHash]}, textsOf(t, st.Current, schemas.ColHash))

				b.commit(load.Sweep{}, put{table, []Row{row(0, "2", "bea")}})
				_, ok = s.SurveyOf(b.key)
				require.False(t, ok, "a commit ends the survey of its stream")
			})
		}
	}
}

// testSurveyOwn surveys penstock's own tables. The survey must return only rows of the pipeline, and only rows that a
// run needs.
func testSurveyOwn(t *testing.T, d Driver) {
	b := newFixture(t, d)
	b.survey(load.Surveyed{Key: b.key})
	own := func(s load.Surveyor) map[string][]string {
		found := map[string][]string{}
		var all []load.SurveyedOwn
		for table, column := range map[string]string{load.Certificates.Name: "stream", load.Rejects.Name: "record_id", load.Runs.Name: "status"} {
			all = append(all, load.SurveyedOwn{Table: table, Columns: []string{column, "run"}, Visit: func(batch arrow.RecordBatch) error {
				runs := textsOf(t, batch, "run")
				for i, text := range textsOf(t, batch, column) {
					found[table] = append(found[table], text+" "+runs[i])
				}
				return nil
			}})
		}
		require.NoError(t, s.Survey(t.Context(), []load.Surveyed{{Key: b.key}}, all))
		return found
	}
	require.Empty(t, own(b.dest.(load.Surveyor)), "before the first run")
	write := func(t schemas.Table, rows ...[]any) {
		next := state.Cursor(t.Name)
		require.NoError(b, load.CommitRows(b.Context(), b.dest, b.key, b.cursor, next, b.pass, t, rows...))
		b.cursor = next
	}
	certificate := func(run, pipeline, stream string) []any {
		return []any{run, pipeline, stream, noon, "proven", `{}`, 1, 1, 0, 1, 0, 0, 0, 1, 1}
	}
	reject := func(pipeline, id string, resolved any) []any {
		return []any{"r1", pipeline, "a", 1, 1, "", noon, id, "", "", "", true, resolved, id, "extract", nil}
	}
	pipeline := b.key.Pipeline
	write(load.Certificates, certificate("r1", pipeline, "a"), certificate("r2", pipeline, "a"), certificate("r2", pipeline, "a"), certificate("r1", pipeline, "b"), certificate("r3", "other", "a"))
	write(load.Rejects, reject(pipeline, "1", nil), reject(pipeline, "2", noon), reject("other", "3", nil))
	write(load.Runs, []any{"r1", pipeline, noon, noon, "complete", `{}`, nil}, []any{"r3", "other", noon, noon, "complete", `{}`, nil})
	b.reopen()
	found := own(b.dest.(load.Surveyor))
	require.ElementsMatch(t, []string{"a r2", "a r2", "b r1"}, found[load.Certificates.Name])
	require.Equal(t, []string{"1 r1"}, found[load.Rejects.Name])
	require.Equal(t, []string{"complete r1"}, found[load.Runs.Name])
	st, ok := b.dest.(load.Surveyor).SurveyOf(b.key)
	require.True(t, ok)
	require.Equal(t, b.cursor, st.Cursor)
	require.Empty(t, st.Tables)
	require.NoError(t, load.CommitRows(t.Context(), b.dest, b.key, b.cursor, "next", b.pass, load.Runs))
}

// twoStreams commits one row for each of two streams. The first stream has the key `orders`, and fills the table
// `people`. The second stream fills the table `others`. twoStreams returns the key of the second stream, and then the
// cursors of the first and of the second stream.
func twoStreams(t *testing.T, d Driver) (b *fixture, other state.Key, first, second state.Cursor) {
	t.Helper()
	b = newFixture(t, d)
	other = state.Key{Pipeline: b.key.Pipeline, Stream: "sales.people"}
	b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann")}})
	first = b.cursor
	b.key, b.cursor = other, ""
	b.commit(load.Sweep{}, put{root("others", []string{"id"}, column("id", schemas.Text), column("name", schemas.Text)), []Row{person(b.pass.Run, 0, "1", "ann")}})
	return b, other, first, b.cursor
}

// testSettle settles two streams. Another process has moved the cursor of one of them.
func testSettle(t *testing.T, d Driver) {
	b, other, first, second := twoStreams(t, d)
	b.reopen()
	before := b.driver.Rows(t, b.dest, "people")
	s := b.survey(load.Surveyed{Key: orders, Table: "people"}, load.Surveyed{Key: other, Table: "others"})

	process := d.Open(t, func(string) error { return nil })
	t.Cleanup(func() { _ = process.Close() })
	require.NoError(t, load.CommitRows(t.Context(), process, other, second, `{"n":7}`, b.pass, load.Certificates))

	b.run(2)
	settlement := func(k state.Key, from state.Cursor) load.Settlement {
		c, err := load.Rows(load.Certificates, []any{b.pass.Run, k.Pipeline, k.Stream, noon, "proven", `[]`, 1, 1, 0, 1, 0, 0, 0, 1, 1})
		require.NoError(t, err)
		t.Cleanup(c.Release)
		return load.Settlement{Key: k, Expected: from, Next: `{"n":9}`, Pass: b.pass, Rows: []load.OwnRows{{Table: load.Certificates, Batch: c}}}
	}
	errs := s.Settle(t.Context(), []load.Settlement{settlement(other, second), settlement(orders, first)})
	require.Len(t, errs, 2)
	require.ErrorIs(t, errs[0], state.ErrMoved)
	require.NoError(t, errs[1])
	require.Equal(t, before, b.driver.Rows(t, b.dest, "people"), "the rows of the stream are not changed")
	certificates := b.driver.Rows(t, b.dest, load.Certificates.Name)
	require.Len(t, certificates, 1)
	require.Equal(t, orders.Stream, certificates[0]["stream"])
	for k, want := range map[state.Key]state.Cursor{orders: `{"n":9}`, other: `{"n":7}`} {
		st, known := s.SurveyOf(k)
		require.Equal(t, k == orders, known, "the survey of a stream ends if the settlement fails")
		require.Equal(t, k == orders, st.Settled)
		at, err := b.dest.Cursor(t.Context(), k)
		require.NoError(t, err)
		require.Equal(t, want, at)
	}
	errs = s.Settle(t.Context(), []load.Settlement{settlement(other, `{"n":7}`)})
	require.ErrorIs(t, errs[0], state.ErrMoved, "without a survey, the rows of the stream are not known")
	again := settlement(orders, `{"n":9}`)
	again.Next = `{"n":10}`
	require.NoError(t, s.Settle(t.Context(), []load.Settlement{again})[0], "a second pass of the same run")
	b.key, b.cursor = orders, `{"n":10}`
	require.EqualValues(t, 1, b.commit(sweep("people"), put{people, []Row{person(b.pass.Run, 0, "1", "ann")}}).Unchanged)
}

// testSettleStops lets a settlement fail at each step. The settlement must then have either all of its effects or none.
func testSettleStops(t *testing.T, d Driver) {
	for _, at := range []string{"begin", "ledger", "state", "precommit", "committed"} {
		t.Run(at, func(t *testing.T) {
			b := newFixture(t, d)
			b.commit(load.Sweep{}, put{people, []Row{person(b.pass.Run, 0, "1", "ann")}})
			armed, stopped, stop := false, false, errors.New("stopped")
			b.reopenWith(func(step string) error {
				if armed && step == at {
					stopped = true
					return stop
				}
				return nil
			})
			s := b.survey(load.Surveyed{Key: b.key, Table: "people"})
			armed = true
			c, err := load.Rows(load.Certificates, []any{b.pass.Run, b.key.Pipeline, b.key.Stream, noon, "proven", `[]`, 1, 1, 0, 1, 0, 0, 0, 1, 1})
			require.NoError(t, err)
			defer c.Release()
			errs := s.Settle(t.Context(), []load.Settlement{{Key: b.key, Expected: b.cursor, Next: `{"n":9}`, Pass: b.pass, Rows: []load.OwnRows{{Table: load.Certificates, Batch: c}}}})
			if !stopped {
				t.Skip("the destination has no such step")
			}
			require.ErrorIs(t, errs[0], stop)
			b.reopen()
			want, rows := b.cursor, 0
			if at == "committed" {
				want, rows = `{"n":9}`, 1
			}
			stored, err := b.dest.Cursor(t.Context(), b.key)
			require.NoError(t, err)
			require.Equal(t, want, stored)
			require.Len(t, b.driver.Rows(t, b.dest, load.Certificates.Name), rows)
		})
	}
}

// testSettleEach settles two streams in one call. The first attempt, which may settle both streams in one transaction,
// fails once. The settlement of the second stream must nevertheless succeed.
func testSettleEach(t *testing.T, d Driver) {
	b, other, first, second := twoStreams(t, d)
	armed := false
	b.reopenWith(func(step string) error {
		if armed && step == "state" {
			armed = false
			return errors.New("stopped")
		}
		return nil
	})
	s := b.survey(load.Surveyed{Key: orders, Table: "people"}, load.Surveyed{Key: other, Table: "others"})
	armed = true
	errs := s.Settle(t.Context(), []load.Settlement{
		{Key: orders, Expected: first, Next: `{"n":9}`, Pass: b.pass}, {Key: other, Expected: second, Next: `{"n":9}`, Pass: b.pass},
	})
	require.False(t, armed, "the step was reached")
	require.NoError(t, errs[1])
	at, err := b.dest.Cursor(t.Context(), other)
	require.NoError(t, err)
	require.EqualValues(t, `{"n":9}`, at)
}

// testSettleEnds ends the context after the first of two settlements that are made one by one. The second settlement
// must not count as committed. // Invariant 14
func testSettleEnds(t *testing.T, d Driver) {
	b, other, first, second := twoStreams(t, d)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	armed, failed := false, false
	b.reopenWith(func(step string) error {
		switch {
		case armed && !failed && step == "state":
			failed = true
			return errors.New("stopped")
		case failed && step == "committed":
			cancel()
		}
		return nil
	})
	s := b.survey(load.Surveyed{Key: orders, Table: "people"}, load.Surveyed{Key: other, Table: "others"})
	armed = true
	errs := s.Settle(ctx, []load.Settlement{
		{Key: orders, Expected: first, Next: `{"n":9}`, Pass: b.pass}, {Key: other, Expected: second, Next: `{"n":9}`, Pass: b.pass},
	})
	require.True(t, failed, "the step was reached")
	b.reopen()
	for i, k := range []state.Key{orders, other} {
		at, err := b.dest.Cursor(t.Context(), k)
		require.NoError(t, err)
		require.Equal(t, errs[i] == nil, at == `{"n":9}`, "%s: %s, %v", k.Stream, at, errs[i])
	}
}

// testSurveyNeighbours surveys and settles the streams of two sources that share a table.
func testSurveyNeighbours(t *testing.T, d Driver) {
	if !sharing(t, d) {
		t.Skip("tables cannot be shared")
	}
	_, all := workspaces(t, d, "ann", "bob")
	rows := [][]string{{"ann"}, {"ann", "bea"}}
	for i, b := range all {
		var put1 []Row
		for n, name := range rows[i] {
			put1 = append(put1, person(b.pass.Run, n, strconv.Itoa(n), name))
		}
		b.commit(load.Sweep{}, put{people, put1})
		s := b.survey(load.Surveyed{Key: b.key, Table: "people", Columns: []string{"name"}})
		st, ok := s.SurveyOf(b.key)
		require.True(t, ok)
		tables, err := b.dest.Tables(t.Context(), "people")
		require.NoError(t, err)
		require.Equal(t, tables, st.Tables)
		at, err := b.dest.StreamState(t.Context(), b.key, "people")
		require.NoError(t, err)
		require.Equal(t, at, st.State)
		require.Equal(t, digestOf(t, people, put1...), st.Digest)
		require.ElementsMatch(t, rows[i], textsOf(t, st.Current, "name"))
	}
	for i, b := range all {
		b.run(2)
		c, err := load.Rows(load.Certificates, []any{b.pass.Run, b.key.Pipeline, b.key.Stream, noon, "proven", `[]`, 1, 1, 0, 1, 0, 0, 0, 1, 1})
		require.NoError(t, err)
		errs := b.dest.(load.Surveyor).Settle(t.Context(), []load.Settlement{{Key: b.key, Expected: b.cursor, Next: `{"n":9}`, Pass: b.pass, Rows: []load.OwnRows{{Table: load.Certificates, Batch: c}}}})
		c.Release()
		require.NoError(t, errs[0])
		for j, other := range all {
			at, err := other.dest.Cursor(t.Context(), other.key)
			require.NoError(t, err)
			require.Equal(t, j <= i, at == `{"n":9}`)
			certificates := 0
			if j <= i {
				certificates = 1
			}
			require.Len(t, other.driver.Rows(t, other.dest, load.Certificates.Name), certificates)
		}
	}
}
