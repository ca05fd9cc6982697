package loadtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

var modes = []schemas.Mode{schemas.Merge, schemas.Append, schemas.Replace, schemas.History}

// story is a sequence of transactions on a table and its children, with the expected result in each mode. The text of a
// record is `id:name`. The record's hash and its children, two levels deep, are derived from the name. The record
// `id:name#7` has the ordinal 7. [fixture.content] describes the text of a table's content.
type story struct {
	name  string
	basic bool // even a brief suite runs this story in every mode
	steps []step
	want  map[schemas.Mode]string
}

type step struct {
	run   int // number of the pass; 0: the pass of the previous step
	rows  string
	sweep bool // the pass ends; rows that it has neither written nor found unchanged are deleted
	again bool // another process continues the pass
	late  int  // minutes by which the clock is behind
	as    int  // number of the run that is stored in the rows; 0: the run in which the pass began
}

type family struct{ root, items, parts schemas.Table }

func newFamily(mode schemas.Mode, keyed bool) family {
	var f family
	link := schemas.Text
	if keyed {
		link = schemas.Int64
		f.root = root("people", []string{"id"}, column("id", schemas.Int64), column("name", schemas.Text))
	} else {
		f.root = root("people", nil, column("name", schemas.Text))
	}
	f.items = hanging("people__items", link, false, column("sku", schemas.Text))
	f.parts = hanging("people__items__parts", link, true, column("sku", schemas.Text))
	f.root.Mode, f.items.Mode, f.parts.Mode = mode, mode, mode
	return f
}

func (f family) puts(run string, records string) []put {
	out := []put{{table: f.root}, {table: f.items}, {table: f.parts}}
	for i, text := range strings.Fields(records) {
		ordinal := i
		if name, n, ok := strings.Cut(text, "#"); ok {
			text, ordinal = name, number(n)
		}
		id, name, keyed := strings.Cut(text, ":")
		cells, link := Row{"id": id, "name": name}, id
		if !keyed {
			cells, name = Row{"name": text}, text
			link = fmt.Sprintf("h-%s-%d", name, ordinal)
		}
		for level, cells := range []Row{
			cells,
			{"sku": name + ".item", schemas.ColParent: link, schemas.ColIndex: "0"},
			{"sku": name + ".part", schemas.ColParent: link + "/0", schemas.ColRoot: link, schemas.ColIndex: "0"},
		} {
			out[level].rows = append(out[level].rows, with(run, ordinal, "h-"+name, cells))
		}
	}
	return out
}

func (b *fixture) play(f family, s step) load.Outcome {
	b.Helper()
	if s.run != 0 && b.pass.Run != runID(s.run) {
		log := b.pass.Log
		b.run(s.run)
		b.pass.Log = log
	}
	if s.again {
		b.reopen()
		b.pass.Whole = false
	}
	sweep := load.Sweep{}
	if s.sweep {
		sweep = load.Sweep{Table: f.root.Name, Delete: true}
	}
	stamp := b.pass.Run
	if s.as != 0 {
		stamp = runID(s.as)
	}
	b.pass.Now = clockOf(stamp, s.late)
	return b.commit(sweep, f.puts(stamp, s.rows)...)
}

func runID(n int) string { return fmt.Sprintf("run%09d", n) }

// content returns the root table as words, one per row, sorted. `1:ann@2` is a record as written by run 2. `†3` marks a
// tombstone of run 3. In History, `[2,3)` means that a version is valid from run 2 until run 3, which has replaced the
// version. `[2,3†)` means that run 3 has found the record missing. content also checks that the child rows match.
func (b *fixture) content(f family) string {
	b.Helper()
	var words, children, want []string
	for _, r := range b.driver.Rows(b, b.dest, f.root.Name) {
		life := life(f.root, r)
		word := r["name"]
		if id, ok := r["id"]; ok {
			word = id + ":" + word
		}
		words = append(words, word+life)
		want = append(want, r["name"]+".item"+life, r["name"]+".part"+life)
	}
	for _, t := range []schemas.Table{f.items, f.parts} {
		for _, r := range b.driver.Rows(b, b.dest, t.Name) {
			children = append(children, r["sku"]+life(t, r))
		}
	}
	if len(f.root.Key) == 0 { // equal rows cannot be distinguished
		words, children, want = anonymous(words), anonymous(children), anonymous(want)
	}
	slices.Sort(words)
	require.ElementsMatch(b, want, children, "children of %s", words)
	b.views(f)
	return strings.Join(words, " ")
}

func (b *fixture) views(f family) {
	b.Helper()
	if !b.driver.Views || f.root.Mode != schemas.History && (f.root.Mode != schemas.Merge || len(f.root.Key) == 0) {
		return
	}
	for _, t := range []schemas.Table{f.root, f.items, f.parts} {
		m := table{Table: t}
		rows := slices.DeleteFunc(b.driver.Rows(b, b.dest, t.Name), func(r Row) bool { return !m.isCurrent(r) })
		require.ElementsMatch(b, rows, b.driver.Rows(b, b.dest, t.Name+"_current"), "view of %s", t.Name)
	}
}

func life(t schemas.Table, r Row) string {
	text := fmt.Sprintf("@%d", number(r[schemas.ColRun]))
	deleted, dead := r[schemas.ColDeletedAt]
	if t.Mode != schemas.History {
		if dead {
			text += "†" + minute(deleted)
		}
		return text
	}
	mark := ""
	if dead {
		mark = "†"
	}
	return fmt.Sprintf("%s[%s,%s%s)", text, minute(r[schemas.ColValidFrom]), minute(r[schemas.ColValidTo]), mark)
}

func minute(text string) string {
	if text == "" {
		return ""
	}
	return fmt.Sprint(int((Row{"t": text}).time("t").Sub(morning).Minutes()))
}

// anonymous removes the `@` and the rest of each word. In History, it leaves the end of a version in the word.
func anonymous(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		name, life, _ := strings.Cut(w, "@")
		_, life, _ = strings.Cut(life, ",")
		out[i] = strings.TrimSuffix(name+" "+life, " ")
	}
	return out
}

// run makes the story's transactions in each of the given modes. Then it reads the same records once more, which must
// write nothing.
func (s story) run(t *testing.T, d Driver, in []schemas.Mode, keyed bool) {
	for _, mode := range in {
		t.Run(string(mode), func(t *testing.T) {
			f := newFamily(mode, keyed)
			b := newFixture(t, d)
			reference := newFixture(t, memoryDriver())
			for i, step := range s.steps {
				got, want := b.play(f, step), reference.play(f, step)
				require.Equal(t, comparable(mode, want), comparable(mode, got), "outcome of step %d", i)
			}
			require.Equal(t, s.want[mode], b.content(f))
			b.chronological(f)
			b.unchanged(f, s.steps)
		})
	}
}

// comparable returns an outcome without the counts in which destinations may differ.
func comparable(mode schemas.Mode, o load.Outcome) load.Outcome {
	if mode == schemas.Append {
		o.Alive, o.Missing = 0, 0
	}
	return o
}

func (b *fixture) unchanged(f family, steps []step) {
	b.Helper()
	first := len(steps) - 1
	for steps[first].run == 0 {
		first--
	}
	found := map[string]string{}
	for i, s := range steps[first:] {
		for j, text := range inOrder(s.rows) {
			id, _, keyed := strings.Cut(text, ":")
			if !keyed {
				id = fmt.Sprint(i, j)
			}
			found[id] = text
		}
	}
	again := steps[len(steps)-1]
	again.run, again.again = steps[first].run+1, false
	again.rows = strings.Join(slices.Collect(maps.Values(found)), " ")
	before := b.all(f)
	out := b.play(f, again)
	require.Zero(b, out.Written+out.Deleted)
	require.EqualValues(b, len(found), out.Unchanged)
	require.Equal(b, before, b.all(f), "an unchanged pass writes nothing")
}

func inOrder(records string) []string {
	rows := strings.Fields(records)
	slices.SortStableFunc(rows, func(a, b string) int {
		_, x, _ := strings.Cut(a, "#")
		_, y, _ := strings.Cut(b, "#")
		return number("#"+x) - number("#"+y)
	})
	for i, r := range rows {
		rows[i], _, _ = strings.Cut(r, "#")
	}
	return rows
}

func (b *fixture) all(f family) map[string][]string {
	out := map[string][]string{}
	for _, t := range []schemas.Table{f.root, f.items, f.parts} {
		for _, r := range b.driver.Rows(b, b.dest, t.Name) {
			out[t.Name] = append(out[t.Name], fmt.Sprint(r))
		}
		slices.Sort(out[t.Name])
	}
	return out
}

func (b *fixture) chronological(f family) {
	b.Helper()
	if f.root.Mode != schemas.History || len(f.root.Key) == 0 {
		return
	}
	versions := map[string][]Row{}
	for _, r := range b.driver.Rows(b, b.dest, f.root.Name) {
		versions[r["id"]] = append(versions[r["id"]], r)
	}
	for id, rows := range versions {
		slices.SortFunc(rows, func(a, b Row) int {
			if c := a.time(schemas.ColValidFrom).Compare(b.time(schemas.ColValidFrom)); c != 0 {
				return c
			}
			return strings.Compare(b[schemas.ColValidTo], a[schemas.ColValidTo])
		})
		for i, r := range rows {
			to, ended := r[schemas.ColValidTo]
			require.True(b, ended || i == len(rows)-1, "record %s has two current versions: %v", id, rows)
			require.False(b, ended && r.time(schemas.ColValidTo).Before(r.time(schemas.ColValidFrom)), "record %s ends at %s before it begins", id, to)
			if i > 0 {
				require.False(b, r.time(schemas.ColValidFrom).Before(rows[i-1].time(schemas.ColValidTo)), "versions of record %s overlap: %v", id, rows)
			}
		}
	}
}
