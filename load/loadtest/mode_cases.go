package loadtest

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

func each(merge, add, replace, history string) map[schemas.Mode]string {
	return map[schemas.Mode]string{schemas.Merge: merge, schemas.Append: add, schemas.Replace: replace, schemas.History: history}
}

var keyedStories = []story{
	{
		name:  "first load",
		steps: []step{{run: 1, rows: "1:ann 2:bob", sweep: true}},
		want:  each("1:ann@1 2:bob@1", "1:ann@1 2:bob@1", "1:ann@1 2:bob@1", "1:ann@1[1,) 2:bob@1[1,)"),
	}, {
		name:  "records are new, changed, missing and unchanged",
		basic: true,
		steps: []step{{run: 1, rows: "1:ann 2:bob 3:cid", sweep: true}, {run: 2, rows: "1:ann 2:bea 4:dan", sweep: true}},
		want: each("1:ann@1 2:bea@2 3:cid@1†2 4:dan@2", "1:ann@1 2:bea@2 2:bob@1 3:cid@1 4:dan@2", "1:ann@1 2:bea@2 4:dan@2",
			"1:ann@1[1,) 2:bea@2[2,) 2:bob@1[1,2) 3:cid@1[1,2†) 4:dan@2[2,)"),
	}, {
		name:  "a record is changed, and then changed back",
		steps: []step{{run: 1, rows: "1:ann", sweep: true}, {run: 2, rows: "1:amy", sweep: true}, {run: 3, rows: "1:ann", sweep: true}},
		want:  each("1:ann@3", "1:amy@2 1:ann@1 1:ann@3", "1:ann@3", "1:amy@2[2,3) 1:ann@1[1,2) 1:ann@3[3,)"),
	}, {
		name:  "a key occurs twice in a batch, with ordinals out of order",
		steps: []step{{run: 1, rows: "1:last#5 1:first#1 1:middle#3 2:one#2 2:one#4", sweep: true}},
		want:  each("1:last@1 2:one@1", "1:last@1 2:one@1", "1:last@1 2:one@1", "1:last@1[1,) 2:one@1[1,)"),
	}, {
		name:  "a key occurs twice in a batch, and there is an older row",
		steps: []step{{run: 1, rows: "1:ann"}, {run: 2, rows: "1:ann#2 1:amy#1 1:art#3"}},
		want:  each("1:art@2", "1:ann@1 1:art@2", "1:art@2", "1:ann@1[1,2) 1:art@2[2,)"),
	}, {
		name:  "a key occurs twice in a pass, and is unchanged",
		steps: []step{{run: 1, rows: "1:ann 2:bob"}, {rows: "1:ann"}, {run: 2, rows: "1:ann 2:bob"}, {rows: "2:bob", sweep: true}},
		want:  each("1:ann@1 2:bob@1", "1:ann@1 2:bob@1", "1:ann@1 2:bob@1", "1:ann@1[1,) 2:bob@1[1,)"),
	}, {
		name:  "a key occurs twice in a pass, and is changed in between",
		steps: []step{{run: 1, rows: "1:ann 2:bob"}, {run: 2, rows: "1:amy 2:bob"}, {rows: "1:art 2:bea", sweep: true}},
		want:  each("1:art@2 2:bea@2", "1:ann@1 1:art@2 2:bea@2 2:bob@1", "1:art@2 2:bea@2", "1:ann@1[1,2) 1:art@2[2,) 2:bea@2[2,) 2:bob@1[1,2)"),
	}, {
		name:  "a key occurs twice in a pass, unchanged and then changed; another key is missing",
		steps: []step{{run: 1, rows: "1:ann 2:bob"}, {run: 2, rows: "1:ann"}, {rows: "1:amy", sweep: true}},
		want:  each("1:amy@2 2:bob@1†2", "1:amy@2 1:ann@1 2:bob@1", "1:amy@2", "1:amy@2[2,) 1:ann@1[1,2) 2:bob@1[1,2†)"),
	}, {
		name:  "a key occurs twice in a pass, new and then changed",
		steps: []step{{run: 1, rows: "1:ann"}, {rows: "1:amy"}, {rows: "1:art", sweep: true}},
		want:  each("1:art@1", "1:art@1", "1:art@1", "1:art@1[1,)"),
	}, {
		name:  "a record is missing, and then comes back",
		steps: []step{{run: 1, rows: "1:ann 2:bob", sweep: true}, {run: 2, rows: "1:ann", sweep: true}, {run: 3, rows: "1:ann 2:bob", sweep: true}},
		want:  each("1:ann@1 2:bob@3", "1:ann@1 2:bob@1", "1:ann@1 2:bob@3", "1:ann@1[1,) 2:bob@1[1,2†) 2:bob@3[3,)"),
	}, {
		name:  "a record is missing, and then comes back with another name",
		steps: []step{{run: 1, rows: "1:ann 2:bob", sweep: true}, {run: 2, rows: "1:ann", sweep: true}, {run: 3, rows: "1:ann 2:bea", sweep: true}},
		want:  each("1:ann@1 2:bea@3", "1:ann@1 2:bea@3 2:bob@1", "1:ann@1 2:bea@3", "1:ann@1[1,) 2:bea@3[3,) 2:bob@1[1,2†)"),
	}, {
		name: "a record is missing, comes back, is changed, and is missing again",
		steps: []step{
			{run: 1, rows: "1:ann", sweep: true}, {run: 2, sweep: true}, {run: 3, rows: "1:ann", sweep: true},
			{run: 4, rows: "1:amy", sweep: true}, {run: 5, sweep: true},
		},
		want: each("1:amy@4†5", "1:amy@4 1:ann@1", "", "1:amy@4[4,5†) 1:ann@1[1,2†) 1:ann@3[3,4)"),
	}, {
		name:  "all records are missing",
		steps: []step{{run: 1, rows: "1:ann 2:bob", sweep: true}, {run: 2, sweep: true}},
		want:  each("1:ann@1†2 2:bob@1†2", "1:ann@1 2:bob@1", "", "1:ann@1[1,2†) 2:bob@1[1,2†)"),
	}, {
		name:  "a pass is resumed, and all rows that it had read before were changed",
		steps: []step{{run: 1, rows: "1:ann 2:bob", sweep: true}, {run: 2, rows: "1:amy"}, {again: true, rows: "2:bob", sweep: true}},
		want:  each("1:amy@2 2:bob@1", "1:amy@2 1:ann@1 2:bob@1", "1:amy@2 2:bob@1", "1:amy@2[2,) 1:ann@1[1,2) 2:bob@1[1,)"),
	}, {
		name:  "a pass is resumed, and the new process does not know the unchanged keys",
		steps: []step{{run: 1, rows: "1:ann 2:bob 3:cid", sweep: true}, {run: 2, rows: "1:ann"}, {again: true, rows: "2:bea", sweep: true}, {run: 3, rows: "1:ann 2:bea 3:cid", sweep: true}},
		want:  each("1:ann@1 2:bea@2 3:cid@1", "1:ann@1 2:bea@2 2:bob@1 3:cid@1", "1:ann@1 2:bea@2 3:cid@1", "1:ann@1[1,) 2:bea@2[2,) 2:bob@1[1,2) 3:cid@1[1,)"),
	}, {
		name:  "a pass is resumed, and reads a key again",
		steps: []step{{run: 1, rows: "1:ann", sweep: true}, {run: 2, rows: "1:amy"}, {again: true, rows: "1:art", sweep: true}},
		want:  each("1:art@2", "1:ann@1 1:art@2", "1:art@2", "1:ann@1[1,2) 1:art@2[2,)"),
	}, {
		name: "a pass is resumed by a later run, and reads a key twice",
		steps: []step{
			{run: 1, rows: "1:ann", sweep: true}, {run: 2, rows: "2:bob"}, {again: true, as: 3, rows: "1:amy 2:bob"},
			{as: 3, rows: "1:art", sweep: true}, {run: 4, rows: "1:art 2:bob", sweep: true},
		},
		want: each("1:art@3 2:bob@2", "1:ann@1 1:art@3 2:bob@2", "1:art@3 2:bob@2", "1:ann@1[1,3) 1:art@3[3,) 2:bob@2[2,)"),
	}, {
		name:  "the clock went back",
		steps: []step{{run: 5, rows: "1:ann 2:bob", sweep: true}, {run: 6, late: 3, rows: "1:amy 2:bob", sweep: true}},
		want:  each("1:amy@6 2:bob@5", "1:amy@6 1:ann@5 2:bob@5", "1:amy@6 2:bob@5", "1:amy@6[5,) 1:ann@5[5,5) 2:bob@5[5,)"),
	},
}

var keylessStories = []story{
	{
		name:  "first load",
		steps: []step{{run: 1, rows: "a b a c", sweep: true}},
		want:  each("a a b c", "a a b c", "a a b c", "a ) a ) b ) c )"),
	}, {
		name:  "one of two equal rows is missing, another row arrives three times",
		steps: []step{{run: 1, rows: "a b a c", sweep: true}, {run: 2, rows: "c a c c d", sweep: true}},
		want:  each("a c c c d", "a a b c c c d", "a c c c d", "a ) a 2†) b 2†) c ) c ) c ) d )"),
	}, {
		name:  "a row is missing, and then comes back",
		steps: []step{{run: 1, rows: "a b", sweep: true}, {run: 2, rows: "b", sweep: true}, {run: 3, rows: "b a", sweep: true}},
		want:  each("a b", "a b", "a b", "a ) a 2†) b )"),
	}, {
		name:  "all rows are missing",
		steps: []step{{run: 1, rows: "a a", sweep: true}, {run: 2, sweep: true}},
		want:  each("", "a a", "", "a 2†) a 2†)"),
	},
}

func testModes(t *testing.T, d Driver) {
	for i, s := range keyedStories {
		in := d.modesOf(i)
		if s.basic {
			in = modes
		}
		t.Run(s.name, func(t *testing.T) { s.run(t, d, in, true) })
	}
}

func testModesKeyless(t *testing.T, d Driver) {
	for i, s := range keylessStories {
		t.Run(s.name, func(t *testing.T) { s.run(t, d, d.modesOf(i+2), false) })
	}
}

func testParts(t *testing.T, d Driver) {
	want := each("1:art@2 2:bea@2 3:cid@2 4:dan@1†2", "1:ann@1 1:art@2 2:bea@2 2:bob@1 3:cid@2 4:dan@1", "1:art@2 2:bea@2 3:cid@2",
		"1:ann@1[1,2) 1:art@2[2,) 2:bea@2[2,) 2:bob@1[1,2) 3:cid@2[2,) 4:dan@1[1,2†)")
	for _, mode := range modes {
		t.Run(string(mode), func(t *testing.T) {
			b, f := newFixture(t, d), newFamily(mode, true)
			b.play(f, step{run: 1, rows: "1:ann 2:bob 4:dan", sweep: true})
			b.run(2)
			x := b.begin()
			for _, part := range []struct {
				rows string
				more []arrow.Field
			}{{"1:amy#0 2:bea#1", nil}, {"1:art#2", []arrow.Field{column("age", schemas.Int64)}}, {"3:cid#3", []arrow.Field{column("age", schemas.Text)}}} {
				puts := f.puts(b.pass.Run, part.rows)
				for i := range puts {
					puts[i].table.Columns = arrow.NewSchema(append(puts[i].table.Columns.Fields(), part.more...), nil)
					for _, r := range puts[i].rows {
						r["age"] = "7"
					}
				}
				b.write(x, puts...)
				_, err := x.Apply(t.Context(), load.Sweep{})
				require.NoError(t, err)
			}
			_, err := x.Apply(t.Context(), load.Sweep{Table: "people", Delete: true})
			require.NoError(t, err)
			b.finish(x)
			b.reopen()
			require.Equal(t, want[mode], b.content(f))
			for _, r := range b.driver.Rows(t, b.dest, "people") {
				require.Equal(t, r["name"] == "art" || r["name"] == "cid", r["age"] == "7")
			}
		})
	}
}
