package loadtest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// logged returns the row changes of a run as words, sorted. `insert[1]:>ann` says that record 1 was inserted as ann;
// `update[1]:ann>amy` says that ann became amy.
func (b *fixture) logged(run int) string {
	b.Helper()
	name := func(text string) string {
		if text == "" {
			return ""
		}
		var members map[string]any
		require.NoError(b, json.Unmarshal([]byte(text), &members), text)
		for member := range members {
			require.NotContains(b, member, load.Prefix)
		}
		return members["name"].(string)
	}
	var words []string
	for _, r := range b.driver.Rows(b, b.dest, load.RowChanges.Name) {
		if r["run"] != runID(run) {
			continue
		}
		require.Equal(b, b.key, orders)
		require.Equal(b, []string{b.key.Pipeline, b.key.Stream, "people"}, []string{r["pipeline"], r["stream"], r["table"]})
		require.NotEmpty(b, r["at"])
		before := name(r["before"])
		if r["action"] == "revive" {
			before = "" // if a record comes back after its deletion, a destination may leave out the earlier content
		}
		words = append(words, fmt.Sprintf("%s%s:%s>%s", r["action"], r["key"], before, name(r["after"])))
	}
	slices.Sort(words)
	return strings.Join(words, " ")
}

func testLog(t *testing.T, d Driver) {
	const inserts, swept = "insert[1]:>ann insert[2]:>bob insert[3]:>cid", "delete[3]:cid> insert[4]:>dan update[2]:bob>bea"
	added := each(swept, "insert[4]:>dan update[2]:bob>bea", swept, swept)
	back := each("revive[3]:>cid", "", "insert[3]:>cid", "revive[3]:>cid")
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			b, f := newFixture(t, d), newFamily(mode, true)
			b.pass.Log = true
			b.play(f, step{run: 1, rows: "1:ann 2:bob 3:cid", sweep: true})
			require.Equal(t, inserts, b.logged(1))
			b.play(f, step{run: 2, rows: "1:ann 2:bea 4:dan", sweep: true})
			require.Equal(t, added[mode], b.logged(2))
			b.play(f, step{run: 3, rows: "1:ann 2:bea 3:cid 4:dan", sweep: true})
			require.Equal(t, back[mode], b.logged(3))
			b.play(f, step{run: 4, rows: "1:ann 2:bea 3:cid 4:dan", sweep: true})
			require.Empty(t, b.logged(4), "nothing changed")
			b.play(f, step{run: 5, rows: "1:ann#3 1:amy#1 2:bea#2 3:cid#4 4:dan#5 1:art#6", sweep: true})
			require.Equal(t, "update[1]:ann>art", b.logged(5))
			b.run(6)
			b.play(f, step{rows: "1:ann", sweep: false})
			require.Empty(t, b.logged(6), "the pass has no log")
		})
	}
}

func testLogKeyless(t *testing.T, d Driver) {
	b, f := newFixture(t, d), newFamily(schemas.Merge, false)
	b.pass.Log = true
	b.play(f, step{run: 1, rows: "a b a", sweep: true})
	require.Equal(t, "inserth-a:>a inserth-a:>a inserth-b:>b", b.logged(1))
	b.play(f, step{run: 2, rows: "a c", sweep: true})
	require.Equal(t, "deleteh-a:a> deleteh-b:b> inserth-c:>c", b.logged(2))
	b.play(f, step{run: 3, rows: "c a", sweep: true})
	require.Empty(t, b.logged(3))
}

func testLogValues(t *testing.T, d Driver) {
	b := newFixture(t, d)
	b.pass.Log = true
	table, rows := everything(func(text string) bool {
		return (d.Escape == nil || !strings.Contains(text, "\x00")) && (d.LastTime == nil || d.LastTime(text) == text)
	})
	x := b.begin()
	b.write(x, put{table, rows})
	_, err := x.Apply(t.Context(), load.Sweep{})
	require.NoError(t, err)
	require.NoError(t, x.Rollback())
	require.Empty(t, b.driver.Rows(t, b.dest, load.RowChanges.Name))
	b.commit(load.Sweep{}, put{table, rows})
	logged := b.driver.Rows(t, b.dest, load.RowChanges.Name)
	require.Len(t, logged, len(rows))
	got := map[string]map[string]any{}
	for _, r := range logged {
		require.NotContains(t, r, "before")
		got[r["key"]] = decode(t, r["after"])
	}
	for _, r := range rows {
		have := got["["+r["id"]+"]"]
		require.NotNil(t, have, r["id"])
		for _, f := range table.Columns.Fields() {
			if strings.HasPrefix(f.Name, load.Prefix) {
				continue
			}
			text, ok := r[f.Name]
			want := decode(t, `{"v":`+jsonOf(text, schemas.TypeOf(f), ok)+`}`)["v"]
			if f.Type.ID() == arrow.FLOAT64 && ok {
				a, err := want.(json.Number).Float64()
				require.NoError(t, err)
				b, err := have[f.Name].(json.Number).Float64()
				require.NoError(t, err)
				require.Equal(t, a, b)
				continue
			}
			require.Equal(t, want, have[f.Name], "column %s of %s", f.Name, r["id"])
		}
	}
}

func decode(t *testing.T, text string) (out map[string]any) {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	require.NoError(t, d.Decode(&out), text)
	return out
}
