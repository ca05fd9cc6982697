package sandbox

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// world is the platform's data. Readers hold the server's read lock, and writers hold the write lock.
type world struct {
	tables  map[string]*table
	version uint64 // incremented by every change

	onChange func(table, action string, row object) // called after every change; may be nil
}

func (w *world) notifyChange(table, action string, row object) {
	if w.onChange != nil {
		w.onChange(table, action, row)
	}
}

// table is a set of rows. An update stores a new object, so that readers may still use the old row.
type table struct {
	name string
	rows []object
	next int // id of the next row
	at   map[string]int

	beforeChange map[string]object // each row before its last change; nil for a new row

	mu    sync.Mutex // protects index, which readers build on demand
	index map[string]map[string][]object
}

func (w *world) table(name string) *table {
	t := w.tables[name]
	if t == nil {
		t = &table{name: name, next: 1, at: map[string]int{}}
		w.tables[name] = t
	}
	return t
}

// truncate keeps only the first rows of each table, up to the limit. References may then point to missing rows, as on
// real platforms.
func (w *world) truncate(limit int) {
	for _, t := range w.tables {
		for limit > 0 && len(t.rows) > limit {
			last := t.rows[len(t.rows)-1]
			t.rows = t.rows[:len(t.rows)-1]
			delete(t.at, last.text("id"))
		}
		t.index = nil
	}
}

func (w *world) names() []string { return slices.Sorted(maps.Keys(w.tables)) }

func (t *table) add(o object) {
	if id, ok := o.lookup("id"); ok {
		t.at[textOf(id)] = len(t.rows)
		if n, ok := id.(int); ok && n >= t.next {
			t.next = n + 1
		}
	}
	t.rows = append(t.rows, o)
	t.index = nil
}

func (t *table) find(id string) (object, bool) {
	i, ok := t.at[id]
	if !ok {
		return nil, false
	}
	return t.rows[i], true
}

func (t *table) previous(id string) (object, bool) {
	if o, changed := t.beforeChange[id]; changed {
		return o, o != nil
	}
	return t.find(id)
}

func (t *table) remember(id string, was object) {
	if t.beforeChange == nil {
		t.beforeChange = map[string]object{}
	}
	t.beforeChange[id] = was
}

func (t *table) put(o object) {
	i := t.at[o.text("id")]
	t.remember(o.text("id"), t.rows[i])
	t.rows[i] = o
	t.index = nil
}

func (t *table) remove(id string) bool {
	i, ok := t.at[id]
	if !ok {
		return false
	}
	t.remember(id, t.rows[i])
	t.rows = slices.Delete(slices.Clone(t.rows), i, i+1)
	delete(t.at, id)
	for k, at := range t.at {
		if at > i {
			t.at[k] = at - 1
		}
	}
	t.index = nil
	return true
}

func (t *table) of(column, value string) []object {
	t.mu.Lock()
	defer t.mu.Unlock()
	byValue, ok := t.index[column]
	if !ok {
		byValue = map[string][]object{}
		for _, r := range t.rows {
			k := r.text(column)
			byValue[k] = append(byValue[k], r)
		}
		if t.index == nil {
			t.index = map[string]map[string][]object{}
		}
		t.index[column] = byValue
	}
	return byValue[value]
}

// idsOf reads a list of ids in all forms that the platform stores: "1,4", ["1",4], {"0":"3","2":"5"}, or a string
// with a JSON array.
func idsOf(v any) []string {
	var ids []string
	switch v := v.(type) {
	case int:
		ids = append(ids, textOf(v))
	case string:
		trimmed := strings.Trim(v, `[]"`)
		ids = strings.FieldsFunc(trimmed, func(r rune) bool { return r == ',' || r == '"' || r == ' ' })
	case list:
		for _, e := range v {
			ids = append(ids, textOf(e))
		}
	case object:
		for _, m := range v {
			ids = append(ids, textOf(m.value))
		}
	}
	return ids
}

func (w *world) idIn(name, id string) any {
	r, _ := w.table(name).find(id)
	return r.get("id")
}

// order sorts rows. Rows with equal values keep their order, which a real database does not guarantee.
func order(rows []object, by string) []object {
	if by == "" {
		return rows
	}
	column, descending := strings.CutPrefix(by, "-")
	sorted := slices.Clone(rows)
	slices.SortStableFunc(sorted, func(a, b object) int {
		c := compare(a.get(column), b.get(column))
		if descending {
			c = -c
		}
		return c
	})
	return sorted
}

func compare(a, b any) int {
	x, okX := a.(int)
	y, okY := b.(int)
	if okX && okY {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(textOf(a), textOf(b))
}

func decode(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.Atoi(v.String()); err == nil {
			return n
		}
		return number(v)
	case []any:
		l := make(list, len(v))
		for i := range v {
			l[i] = decode(v[i])
		}
		return l
	case map[string]any:
		o := make(object, 0, len(v))
		for name, e := range v {
			o = append(o, member{name, decode(e)})
		}
		slices.SortFunc(o, func(a, b member) int { return cmp.Compare(a.name, b.name) })
		return o
	}
	return v
}
