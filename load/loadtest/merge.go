package loadtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Apply implements [load.Tx].
func (x *tx) Apply(ctx context.Context, s load.Sweep) (load.Outcome, error) {
	var out load.Outcome
	if x.done {
		return out, errors.New("apply: the transaction is over")
	}
	if err := x.begin(ctx); err != nil {
		return out, err
	}
	writes := x.writes
	x.writes = nil
	standing := map[int64]bool{}
	for _, step := range []func() error{
		func() error { return x.fit(writes) },
		func() error { return x.roots(writes, standing, &out) },
		func() error { return x.children(writes, standing) },
		func() error { return x.sweep(s, &out) },
		ctx.Err,
	} {
		if err := step(); err != nil {
			return out, err
		}
	}
	return out, nil
}

// fit makes the tables so that all of writes find room.
func (x *tx) fit(writes []write) error {
	if err := x.m.at("ddl"); err != nil {
		return err
	}
	for _, w := range writes {
		var have schemas.Table
		if t := x.tables[w.table.Name]; t != nil {
			have = t.Table
		}
		p, err := load.Fit(have, w.table)
		if err != nil {
			return err
		}
		x.carryOut(p)
		for i := range w.rows {
			w.rows[i] = shape(w.rows[i], w.table.Columns, p.Table.Columns)
		}
	}
	return nil
}

func (x *tx) carryOut(p load.Plan) {
	if p.Empty() {
		return
	}
	t := x.tables[p.Table.Name]
	if t == nil {
		t = &table{}
		x.tables[p.Table.Name] = t
	}
	t.Table, t.index = p.Table, nil
	for _, w := range p.Widen {
		for i, r := range t.rows {
			if text, ok := r[w.Column.Name]; ok {
				t.rows[i] = r.with(w.Column.Name, recast(text, w.From, schemas.TypeOf(w.Column)))
				if !w.Exact() {
					x.forget(p.Table.Name, r[schemas.ColHash])
				}
			}
		}
	}
	changes := x.own(load.Changes)
	for _, c := range p.Changes() {
		changes.rows = append(changes.rows, Row{
			"at": instant(time.Now()), "run": x.pass.Run, "table": c.Table, "column": c.Column, "source": c.Source,
			"action": c.Action, "from_type": c.From, "to_type": c.To, "reason": c.Reason,
		})
	}
}

// forget clears the hash of the record that a row belongs to, so that the next
// pass writes it again.
func (x *tx) forget(name, hash string) {
	root, _, _ := strings.Cut(name, "__")
	for n, t := range x.tables {
		if n != root && n != name && !strings.HasPrefix(n, root+"__") {
			continue
		}
		for i, r := range t.rows {
			if h, ok := r[schemas.ColHash]; ok && h == hash {
				t.rows[i] = r.with(schemas.ColHash, "")
			}
		}
		t.counts = nil
	}
}

// shape casts the cells of a row that came with the columns from to those of
// the table.
func shape(r Row, from, to *arrow.Schema) Row {
	out := Row{}
	for _, f := range from.Fields() {
		i := to.FieldIndices(f.Name)
		if text, ok := r[f.Name]; ok && len(i) == 1 {
			a, b := schemas.TypeOf(f), schemas.TypeOf(to.Field(i[0]))
			if schemas.SameType(a, b) {
				out[f.Name] = text
			} else {
				out[f.Name] = recast(text, a, b)
			}
		}
	}
	return out
}

func (x *tx) own(t schemas.Table) *table {
	have := x.tables[t.Name]
	if have == nil {
		have = &table{Table: t}
		x.tables[t.Name] = have
	}
	return have
}

// roots merges the rows of tables which hang from no other, and collects the
// ordinals of the records that were written.
func (x *tx) roots(writes []write, standing map[int64]bool, out *load.Outcome) error {
	if err := errors.Join(x.m.at("stage"), x.m.at("delete"), x.m.at("insert")); err != nil {
		return err
	}
	type handed struct {
		row     Row
		ordinal int64
	}
	byTable := map[string][]handed{}
	for _, w := range writes {
		if !child(w.table) {
			for i, r := range w.rows {
				byTable[w.table.Name] = append(byTable[w.table.Name], handed{r, w.ordinals[i]})
			}
		}
	}
	for name, rows := range byTable {
		t := x.tables[name]
		slices.SortStableFunc(rows, func(a, b handed) int { return int(a.ordinal - b.ordinal) })
		seen := map[string]int{}
		for _, h := range rows {
			seen[t.id(h.row)]++
		}
		for _, h := range rows {
			switch id := t.id(h.row); {
			case load.Own(name):
				t.replace(h.row)
			case len(t.Key) == 0:
				x.mergeKeyless(t, h.row, h.ordinal, standing, out)
			case seen[id] > 1: // a later one with this key follows
				seen[id]--
				out.Deduplicated++
			default:
				x.mergeKeyed(t, id, h.row, h.ordinal, standing, out)
			}
		}
	}
	return nil
}

func (x *tx) mergeKeyed(t *table, id string, r Row, ordinal int64, standing map[int64]bool, out *load.Outcome) {
	i := t.find(id)
	if i < 0 {
		t.add(r)
		standing[ordinal] = true
		out.Written++
		out.Inserted++
		return
	}
	have := t.rows[i]
	_, dead := have[schemas.ColDeletedAt]
	same := have[schemas.ColHash] == r[schemas.ColHash] && !dead
	again := have[schemas.ColRun] >= x.pass.Run || x.carried[t.Name+id] || x.unchanged[t.Name+id]
	switch {
	case again:
		out.Deduplicated++
	case same:
		out.Unchanged++
		x.unchanged[t.Name+id] = true
	default:
		out.Written++
		if dead {
			out.Revived++
		}
	}
	if !same {
		x.cut(t, have)
		t.rows[i] = r
		standing[ordinal] = true
	}
}

// mergeKeyless adds the row unless the table has as many equal ones already as
// the pass has carried so far.
func (x *tx) mergeKeyless(t *table, r Row, ordinal int64, standing map[int64]bool, out *load.Outcome) {
	hash := r[schemas.ColHash]
	x.kept[t.Name+hash]++
	if x.kept[t.Name+hash] <= t.count(hash) {
		out.Unchanged++
		return
	}
	t.add(r)
	t.counts[hash]++
	standing[ordinal] = true
	out.Written++
	out.Inserted++
}

// cut removes what hangs from the row r of t.
func (x *tx) cut(t *table, r Row) {
	link := t.plain(t.link(r))
	for _, c := range x.descendants(t.Name) {
		c.rows = slices.DeleteFunc(slices.Clone(c.rows), func(r Row) bool { return t.plain(r[linkColumn(c.Table)]) == link })
	}
}

func (x *tx) descendants(name string) []*table {
	var out []*table
	for n, t := range x.tables {
		if strings.HasPrefix(n, name+"__") && child(t.Table) {
			out = append(out, t)
		}
	}
	return out
}

// children adds the rows of child tables whose record was written.
func (x *tx) children(writes []write, standing map[int64]bool) error {
	if err := x.m.at("children"); err != nil {
		return err
	}
	for _, w := range writes {
		if !child(w.table) {
			continue
		}
		t := x.tables[w.table.Name]
		for i, r := range w.rows {
			if standing[w.ordinals[i]] {
				t.rows = append(t.rows, r)
			}
		}
	}
	return nil
}

// sweep counts the rows of a table that the pass did not carry, and deletes
// them if it shall. // Invariant 12
func (x *tx) sweep(s load.Sweep, out *load.Outcome) error {
	if s.Table == "" {
		return nil
	}
	if err := x.m.at("sweep"); err != nil {
		return err
	}
	t := x.tables[s.Table]
	if t == nil {
		out.Known = true
		return nil
	}
	missing := map[int]bool{}
	left := map[string]int{}
	for i, r := range t.rows {
		if _, dead := r[schemas.ColDeletedAt]; dead {
			continue
		}
		out.Alive++
		if !x.has(t, r, left) {
			missing[i] = true
		}
	}
	out.Missing = int64(len(missing))
	out.Known = out.Missing == 0 || x.pass.Whole || len(t.Key) == 0
	if s.Delete && out.Known {
		x.bury(t, missing, s.At)
		out.Deleted = out.Missing
	}
	return nil
}

// has reports whether the pass carried the row r; left counts the equal rows
// seen so far of a table without a key.
func (x *tx) has(t *table, r Row, left map[string]int) bool {
	if len(t.Key) == 0 {
		hash := r[schemas.ColHash]
		left[hash]++
		return left[hash] <= x.kept[t.Name+hash]
	}
	id := t.Name + t.id(r)
	return r[schemas.ColRun] >= x.pass.Run || x.carried[id] || x.unchanged[id]
}

func (x *tx) bury(t *table, missing map[int]bool, at time.Time) {
	var kept []Row
	for i, r := range t.rows {
		switch {
		case !missing[i]:
			kept = append(kept, r)
		case len(t.Key) == 0:
			x.buryOne(t, r[schemas.ColHash])
		default:
			kept = append(kept, r.with(schemas.ColDeletedAt, instant(at)))
			link := t.plain(t.link(r))
			for _, c := range x.descendants(t.Name) {
				for j, cr := range c.rows {
					if t.plain(cr[linkColumn(c.Table)]) == link {
						c.rows[j] = cr.with(schemas.ColDeletedAt, instant(at))
					}
				}
			}
		}
	}
	t.rows, t.index, t.counts = kept, nil, nil
}

// buryOne removes what hangs from one of the rows of t, which has no key, with
// this hash: they are all alike.
func (x *tx) buryOne(t *table, hash string) {
	for _, c := range x.descendants(t.Name) {
		col := linkColumn(c.Table)
		last := ""
		for _, r := range c.rows {
			if r[schemas.ColHash] == hash {
				last = max(last, r[col])
			}
		}
		cut := map[[2]string]bool{} // twins of another pass may have the same links
		c.rows = slices.DeleteFunc(slices.Clone(c.rows), func(r Row) bool {
			id := [2]string{r[schemas.ColParent], r[schemas.ColIndex]}
			if r[schemas.ColHash] != hash || r[col] != last || cut[id] {
				return false
			}
			cut[id] = true
			return true
		})
	}
}

func child(t schemas.Table) bool { return t.Columns.HasField(schemas.ColParent) }

// linkColumn is the column of a child table that holds the key of the record.
func linkColumn(t schemas.Table) string {
	if t.Columns.HasField(schemas.ColRoot) {
		return schemas.ColRoot
	}
	return schemas.ColParent
}

func ordinal(r Row, i int) int64 {
	if text, ok := r[schemas.ColOrdinal]; ok {
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	}
	return int64(i)
}

// id tells rows of t apart.
func (t *table) id(r Row) string {
	var b strings.Builder
	for _, k := range t.Key {
		fmt.Fprintf(&b, "%d:%s,", len(r[k]), r[k])
	}
	return b.String()
}

// find is the place of the row with that id, or -1.
func (t *table) find(id string) int {
	if t.index == nil {
		t.index = make(map[string]int, len(t.rows))
		for i, r := range t.rows {
			t.index[t.id(r)] = i
		}
	}
	if i, ok := t.index[id]; ok {
		return i
	}
	return -1
}

// add appends a row whose id the table does not have yet, or which has none.
func (t *table) add(r Row) {
	if t.index != nil {
		t.index[t.id(r)] = len(t.rows)
	}
	t.rows = append(t.rows, r)
}

// count is the number of rows with that hash.
func (t *table) count(hash string) int {
	if t.counts == nil {
		t.counts = map[string]int{}
		for _, r := range t.rows {
			t.counts[r[schemas.ColHash]]++
		}
	}
	return t.counts[hash]
}

// replace puts r in the place of the row with its key, or adds it.
func (t *table) replace(r Row) {
	if len(t.Key) > 0 {
		if i := t.find(t.id(r)); i >= 0 {
			t.rows[i] = r
			return
		}
	}
	t.add(r)
}

// link is what the children of the row r of t have in their link column: the
// key where it is one column, else the JSON array of its values.
func (t *table) link(r Row) string {
	if len(t.Key) == 1 {
		return r[t.Key[0]]
	}
	values := make([]string, len(t.Key))
	for i, k := range t.Key {
		f := t.Columns.Field(t.Columns.FieldIndices(k)[0])
		values[i] = jsonOf(r[k], schemas.TypeOf(f), true)
	}
	return "[" + strings.Join(values, ",") + "]"
}

// plain is a link without the types of its values, which may have grown since it
// was written.
func (t *table) plain(link string) string {
	var values []any
	d := json.NewDecoder(strings.NewReader(link))
	d.UseNumber()
	if len(t.Key) < 2 || d.Decode(&values) != nil {
		return link
	}
	var b strings.Builder
	for _, v := range values {
		fmt.Fprintf(&b, "%q,", fmt.Sprint(v))
	}
	return b.String()
}

func (r Row) with(column, text string) Row {
	out := make(Row, len(r)+1)
	for k, v := range r {
		out[k] = v
	}
	out[column] = text
	return out
}
