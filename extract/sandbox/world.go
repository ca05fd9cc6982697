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

// world is the platform's data: named tables of rows in the order they were
// made. Whoever reads holds the server's read lock, whoever writes its lock.
type world struct {
	tables  map[string]*table
	version uint64 // moves with every change

	told func(table, action string, row object) // of every change; may be nil
}

// tell passes a change on to whoever wants to know.
func (w *world) tell(table, action string, row object) {
	if w.told != nil {
		w.told(table, action, row)
	}
}

// table is one set of rows. A row is never changed in place: an update puts a
// new object in its stead, so that a reader may keep what it was given.
type table struct {
	name string
	rows []object
	next int // id of the next row
	at   map[string]int

	before map[string]object // rows as they were before their last change, nil for a new one

	mu    sync.Mutex // guards index, which readers build as they need it
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

// keep leaves the first rows of each table, at most so many; 0 keeps all. What they
// refer to may be gone, as at any platform.
func (w *world) keep(most int) {
	for _, t := range w.tables {
		for most > 0 && len(t.rows) > most {
			last := t.rows[len(t.rows)-1]
			t.rows = t.rows[:len(t.rows)-1]
			delete(t.at, last.text("id"))
		}
		t.index = nil
	}
}

// names are the tables' names, in order.
func (w *world) names() []string { return slices.Sorted(maps.Keys(w.tables)) }

// add appends a row; one without an id is kept by position only.
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

// find returns the row with the id, in its text form.
func (t *table) find(id string) (object, bool) {
	i, ok := t.at[id]
	if !ok {
		return nil, false
	}
	return t.rows[i], true
}

// was returns the row with the id as it was before its last change, if any.
func (t *table) was(id string) (object, bool) {
	if o, changed := t.before[id]; changed {
		return o, o != nil
	}
	return t.find(id)
}

// remember keeps what a row was.
func (t *table) remember(id string, was object) {
	if t.before == nil {
		t.before = map[string]object{}
	}
	t.before[id] = was
}

// put replaces the row with the same id.
func (t *table) put(o object) {
	i := t.at[o.text("id")]
	t.remember(o.text("id"), t.rows[i])
	t.rows[i] = o
	t.index = nil
}

// remove takes the row away and reports whether it was there.
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

// of returns the rows whose column has the value, in order.
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

// idsOf reads a list of ids in any of the forms the platform stores them in:
// "1,4", ["1",4], {"0":"3","2":"5"}, and JSON text of the first two.
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

// idIn is the id of a row as it is stored, null when there is none.
func (w *world) idIn(name, id string) any {
	r, _ := w.table(name).find(id)
	return r.get("id")
}

// order sorts rows by a column, "-" in front for descending; rows that tie keep
// their place, as they would until MySQL thinks better of it.
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

// decode turns decoded JSON (of encoding/json with UseNumber) into the world's
// own values; members of objects come in the order of their names.
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
