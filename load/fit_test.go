package load

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/penstock-data/penstock/schemas"
)

func table(name string, key []string, fields ...arrow.Field) schemas.Table {
	return schemas.Table{Name: name, Key: key, Columns: arrow.NewSchema(fields, nil)}
}

func field(name string, t arrow.DataType) arrow.Field { return schemas.Field(name, t, "/"+name) }

func money(p, s int32) arrow.DataType { return &arrow.Decimal128Type{Precision: p, Scale: s} }

func TestFitCreates(t *testing.T) {
	p, err := Fit(schemas.Table{}, table("t", []string{"id"}, field("id", schemas.Int64), field("void", schemas.Null),
		field("none", schemas.Empty), field("doc", schemas.JSON), arrow.Field{Name: schemas.ColOrdinal, Type: schemas.Int64}))
	require.NoError(t, err)
	require.True(t, p.Create)
	require.Equal(t, "t", p.Table.Name)
	require.Equal(t, []string{"id"}, p.Table.Key)
	require.Equal(t, []arrow.Field{field("id", schemas.Int64), field("doc", schemas.JSON)}, p.Table.Columns.Fields())
	require.Equal(t, []Change{
		{Table: "t", Action: ActionCreate, To: "id", Reason: "first rows"},
		{Table: "t", Column: "id", Source: "/id", Action: ActionAdd, To: "int64", Reason: "first rows"},
		{Table: "t", Column: "doc", Source: "/doc", Action: ActionAdd, To: "json", Reason: "first rows"},
	}, p.Changes())
}

func TestFitAddsAndWidens(t *testing.T) {
	have := table("t", []string{"id"}, field("id", schemas.Int64), field("v", money(16, 2)))
	p, err := Fit(have, table("t", []string{"id"}, field("w", schemas.Bool), field("v", schemas.Text), field("id", schemas.Int64)))
	require.NoError(t, err)
	require.False(t, p.Create)
	require.Equal(t, []arrow.Field{field("w", schemas.Bool)}, p.Add)
	require.Equal(t, []Widening{{Column: field("v", schemas.Text), From: money(16, 2)}}, p.Widen)
	require.Equal(t, []arrow.Field{field("id", schemas.Int64), field("v", schemas.Text), field("w", schemas.Bool)}, p.Table.Columns.Fields())
	require.Equal(t, have.Columns.Field(1).Type, money(16, 2), "the argument is not changed")

	again, err := Fit(p.Table, have)
	require.NoError(t, err)
	require.True(t, again.Empty(), "narrower rows fit")
}

func TestFitRefuses(t *testing.T) {
	have := table("t", []string{"id"}, field("id", schemas.Int64))
	_, err := Fit(have, table("t", []string{"uuid"}, field("uuid", schemas.Text)))
	require.ErrorContains(t, err, `its rows are identified by ["id"], not by ["uuid"]`)
	_, err = Fit(have, table("t", []string{"id"}, schemas.Field("id", schemas.Int64, "/ID")))
	require.ErrorContains(t, err, `column "id" holds /id, not /ID`)
}

func TestWideningExact(t *testing.T) {
	for _, c := range []struct {
		from, to arrow.DataType
		want     bool
	}{
		{schemas.Int64, money(21, 2), true},
		{schemas.Int64, schemas.Text, true},
		{schemas.Int64, schemas.JSON, false},
		{schemas.Date, schemas.Text, true},
		{money(16, 2), money(18, 4), true},
		{money(16, 2), schemas.Text, false},
		{schemas.Float64, schemas.Text, false},
		{schemas.Bool, schemas.Text, false},
		{schemas.Timestamp, schemas.Text, false},
		{schemas.Text, schemas.JSON, false},
		{arrow.ListOf(schemas.Int64), arrow.ListOf(schemas.Text), true},
		{arrow.ListOf(schemas.Bool), arrow.ListOf(schemas.Text), false},
		{arrow.ListOf(schemas.Int64), schemas.JSON, false},
	} {
		w := Widening{Column: field("v", c.to), From: c.from}
		require.Equal(t, c.want, w.Exact(), "%s to %s", schemas.TypeName(c.from), schemas.TypeName(c.to))
	}
}

func TestTypeName(t *testing.T) {
	for _, typ := range []arrow.DataType{
		schemas.Null, schemas.Bool, schemas.Int64, money(16, 2), money(38, 0), schemas.Float64, schemas.Date, schemas.Timestamp,
		schemas.Text, schemas.JSON, schemas.Empty, arrow.ListOf(money(21, 2)), arrow.ListOf(schemas.Timestamp),
	} {
		back, err := schemas.ParseTypeName(schemas.TypeName(typ))
		require.NoError(t, err)
		require.True(t, schemas.SameType(typ, back), schemas.TypeName(typ))
	}
	for _, s := range []string{"", "int", "list(", "list(int64", "list()", "decimal(99,2)"} {
		_, err := schemas.ParseTypeName(s)
		require.Error(t, err, "%q", s)
	}
}

// TestReplay makes random sequences of actions. Each action is a call of Fit, a change of mode, or an accepted change.
// The test replays the recorded changes in any order. The result must be the last table of the sequence.
func TestReplay(t *testing.T) {
	types := []arrow.DataType{schemas.Bool, schemas.Int64, money(16, 2), money(23, 4), schemas.Date, schemas.Timestamp, schemas.Text,
		schemas.JSON, arrow.ListOf(schemas.Int64), arrow.ListOf(schemas.Text)}
	modes := []schemas.Mode{"", schemas.Merge, schemas.Replace, schemas.History, schemas.Append}
	rapid.Check(t, func(r *rapid.T) {
		var have schemas.Table
		var all []Change
		took := func(changes ...Change) {
			for _, c := range changes {
				c.At = time.Unix(int64(len(all)), 0)
				all = append(all, c)
			}
		}
		for range rapid.IntRange(1, 6).Draw(r, "fits") {
			want := table("t", []string{"a", "b"})
			want.Mode = rapid.SampledFrom(modes).Draw(r, "mode")
			var fields []arrow.Field
			for _, name := range []string{"a", "b", "c", "d"} {
				if i := rapid.IntRange(-1, len(types)-1).Draw(r, name); i >= 0 {
					fields = append(fields, field(name, types[i]))
				}
			}
			want.Columns = arrow.NewSchema(fields, nil)
			p, err := Fit(have, want)
			if err != nil {
				continue // this change of mode is not possible
			}
			took(p.Changes()...)
			have = p.Table
			if i := rapid.IntRange(-5, have.Columns.NumFields()-1).Draw(r, "by hand"); i >= 0 {
				to := rapid.SampledFrom(append([]arrow.DataType{nil}, types...)).Draw(r, "to")
				if c, err := Accepted(have, have.Columns.Field(i), to); err == nil {
					took(c)
					have = byHand(have, i, to)
				}
			}
			took(Change{Table: "t_current", Action: ActionView})
		}
		made, err := Replay(rapid.Permutation(all).Draw(r, "order"))
		require.NoError(r, err)
		require.NotContains(r, made, "t_current")
		got := made["t"]
		require.Equal(r, have.Key, got.Key)
		require.Equal(r, have.Mode, got.Mode)
		if have.Columns == nil {
			return
		}
		require.Equal(r, have.Columns.NumFields(), got.Columns.NumFields())
		for _, f := range have.Columns.Fields() {
			g, ok := got.Columns.FieldsByName(f.Name)
			require.True(r, ok)
			require.True(r, f.Equal(g[0]), "%v is %v", f, g[0])
		}
	})
}

func byHand(t schemas.Table, i int, to arrow.DataType) schemas.Table {
	fields := slices.Clone(t.Columns.Fields())
	if to == nil {
		fields = slices.Delete(fields, i, i+1)
	} else {
		fields[i] = field(fields[i].Name, to)
	}
	t.Columns = arrow.NewSchema(fields, nil)
	return t
}

func TestFitTurns(t *testing.T) {
	all := []schemas.Mode{schemas.Merge, schemas.Append, schemas.Replace, schemas.History}
	for _, from := range all {
		for _, to := range all {
			first := table("t", []string{"id"}, field("id", schemas.Int64))
			first.Mode = from
			made, err := Fit(schemas.Table{}, first)
			require.NoError(t, err)
			require.True(t, made.Create)
			require.False(t, made.ChangesMode())
			require.Equal(t, from == schemas.History, made.Table.Columns.HasField(schemas.ColValidTo))
			p, err := PlanModeChange(made.Table, to)
			if from != to && (from == schemas.Append || from == schemas.History) {
				require.ErrorContains(t, err, "mode "+string(from))
				continue
			}
			require.NoError(t, err)
			require.Equal(t, from != to, p.ChangesMode())
			require.Equal(t, from == to, p.Empty())
			require.Equal(t, to, p.Table.Mode)
			require.Equal(t, to == schemas.History, p.Table.Columns.HasField(schemas.ColValidTo))
			require.Equal(t, from != to && to == schemas.History, len(p.Add) == 2)
			again, err := PlanModeChange(p.Table, to)
			require.NoError(t, err)
			require.True(t, again.Empty(), "a second plan is empty, because the mode has changed already")
		}
	}
	p, err := Fit(table("t", nil, field("id", schemas.Int64)), schemas.Table{Name: "t", Columns: Runs.Columns, Mode: schemas.Append})
	require.NoError(t, err)
	require.Equal(t, Change{Table: "t", Action: ActionChangeMode, From: "merge", To: "append", Reason: "mode of the pipeline"}, p.Changes()[0], "a table without a mode is in mode merge")
	own, err := Fit(schemas.Table{}, schemas.Table{Name: Runs.Name, Key: Runs.Key, Columns: Runs.Columns, Mode: schemas.History})
	require.NoError(t, err)
	require.False(t, own.Table.Columns.HasField(schemas.ColValidTo), "penstock's own tables have no versions")
}

func TestAccepted(t *testing.T) {
	have := table("t", []string{"id"}, field("id", schemas.Int64), field("v", money(16, 2)), schemas.Field(schemas.ColHash, schemas.Text, ""))
	c, err := Accepted(have, have.Columns.Field(1), nil)
	require.NoError(t, err)
	require.Equal(t, Change{Table: "t", Column: "v", Source: "/v", Action: ActionForget, From: "decimal(16,2)", Reason: "changed by hand, and accepted"}, c)
	c, err = Accepted(have, have.Columns.Field(1), schemas.Int64)
	require.NoError(t, err)
	require.Equal(t, []string{ActionRetype, "decimal(16,2)", "int64"}, []string{c.Action, c.From, c.To})
	for _, i := range []int{0, 2} {
		_, err = Accepted(have, have.Columns.Field(i), nil)
		require.ErrorContains(t, err, have.Columns.Field(i).Name)
	}
}

func TestCompare(t *testing.T) {
	made := map[string]string{"id": "BIGINT", "name": "VARCHAR", "paid": "DECIMAL(16,2)"}
	require.NoError(t, Compare("t", made, map[string]string{"id": "BIGINT", "name": "VARCHAR", "paid": "DECIMAL(16,2)", "theirs": "BLOB"}))
	err := Compare("t", made, map[string]string{"id": "BIGINT", "label": "VARCHAR", "paid": "DOUBLE"})
	require.ErrorIs(t, err, ErrForeignChange)
	require.EqualError(t, err, `table t was changed by hand: column "name" is gone; column "paid" is DOUBLE, was DECIMAL(16,2)`)
	foreign, ok := errors.AsType[*ForeignChange](err)
	require.True(t, ok)
	require.Len(t, foreign.Diff, 2)
}

func TestRows(t *testing.T) {
	b, err := Rows(Rejects, []any{"r", "p", "s", 1, 7, "/a", nil, "1", "date", "x", "bad", true, nil, "1", "transform", nil})
	require.NoError(t, err)
	defer b.Release()
	require.EqualValues(t, 1, b.NumRows())
	require.True(t, b.Column(6).IsNull(0))
	_, err = Rows(Rejects, []any{"r"})
	require.ErrorContains(t, err, "row 0 has 1 values, want 16")
	_, err = Rows(Runs, []any{"r", "p", "yesterday", nil, "s", "{}", nil})
	require.ErrorContains(t, err, "column started_at: cannot store string as timestamp")
}
