package transform

import (
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

type table struct {
	name   string
	path   string // JSON pointer from the record, without array positions; "" for the root table
	place  string // path; if two tables have the same path, one has a slash at the end: see childTable
	within string // JSON pointer from a row of the parent to the array; "" for the root table
	parent *table // nil for the root table
	level  int    // 0 for the root table

	object   *object
	children []*table

	rows      int
	parentRow []int32 // in a child table: for each row, the row of its parent
	position  []int32 // in a child table: for each row, its position in the array
	used      bool    // the table has had rows, or the destination has it
	known     bool    // the destination has the table

	columns []*column
	rest    *column            // column of the root table for members beyond the limit; nil if there were none
	sources map[string]*column // columns by JSON pointer from a row
	namer   *schemas.Namer

	schema *arrow.Schema // describes the columns, and is valid if layout equals Mapper.layout
	layout int
}

// newTable returns a table that begins with the columns of the table in the destination, if there is one.
func (m *Mapper) newTable(name, path string, parent *table) *table {
	t := &table{name: name, path: path, parent: parent, sources: map[string]*column{}, layout: -1}
	fields, found := m.knownFields(name)
	t.used, t.known = found, found
	known, names := map[string]arrow.Field{}, map[string]string{}
	for _, f := range fields {
		source, ok := sourceOf(f)
		if !ok || !m.stillNamed(path+source, f, known[source]) {
			continue
		}
		known[source] = f
		if names[source] = f.Name; m.renamed(path+source) == f.Name {
			delete(names, source) // the mapper uses the original name, and the shaper renames the column
		}
	}
	t.namer = schemas.NewNamer(names)
	for _, f := range fields {
		t.namer.Reserve(f.Name)
	}
	for _, f := range fields {
		if source, _ := sourceOf(f); known[source].Name == f.Name {
			m.addColumn(t, t.namer.Name(source), source, schemas.TypeOf(f))
		}
		if f.Name == schemas.ColRest && parent == nil {
			t.addRest(m)
		}
	}
	if parent != nil {
		t.level = parent.level + 1
		parent.children = append(parent.children, t)
	}
	return t
}

// renamed returns the name that the stream's rules give to the column of a field, or "" if they do not rename it.
func (m *Mapper) renamed(pointer string) string {
	if k := m.rules.at(pointer); k != nil {
		return k.Rename
	}
	return ""
}

// stillNamed reports whether f is the current column of its field. If a field was renamed, the destination may have
// two columns for it. other is the column that was found before f.
func (m *Mapper) stillNamed(pointer string, f, other arrow.Field) bool {
	name := m.renamed(pointer)
	if name == "" {
		name = schemas.Column(schemas.Source(f))
	}
	return other.Name == "" || f.Name == name
}

// childTable returns the table for the objects of an array. The array is at the pointer within in the rows of parent.
//
// A member such as /items may be an array of objects in one record and an object in another. The arrays in it, such
// as /items/taxes, then have rows with different kinds of parents. Such rows are stored in two tables with the same
// path. Invariant 17
func (m *Mapper) childTable(parent *table, within string, depth, level int) *table {
	for _, t := range parent.children {
		if t.within == within {
			return t
		}
	}
	path := parent.path + within
	place := path
	if m.taken(path, parent.level > 0) {
		place += "/"
	}
	t := m.newTable(m.tableNamer.Name(place), path, parent)
	t.place = place
	t.within = within
	t.object = newObject(t, "", depth+1, level+2)
	return t
}

// taken reports whether a table of the other kind already has this path. There are two kinds: children of the root
// table, and children of child tables. deep is true for the second kind.
func (m *Mapper) taken(path string, deep bool) (taken bool) {
	m.root.each(func(t *table) {
		taken = taken || t.place == path && (t.level > 1) != deep
	})
	for _, t := range m.known {
		taken = taken || placeOf(t) == path && t.Columns.HasField(schemas.ColRoot) != deep
	}
	return taken
}

func placeOf(t schemas.Table) string {
	if t.Columns == nil {
		return ""
	}
	md := t.Columns.Metadata()
	place, _ := md.GetValue(schemas.SourceKey)
	return place
}

func (m *Mapper) knownFields(name string) (fields []arrow.Field, found bool) {
	i := slices.IndexFunc(m.known, func(t schemas.Table) bool { return t.Name == name })
	if i < 0 || m.known[i].Columns == nil {
		return nil, i >= 0
	}
	return m.known[i].Columns.Fields(), true
}

// sourceOf returns the pointer of the field that a column holds. ok is false for penstock's own columns and for
// columns that users have added. The column for records that are not objects has the pointer "" and a fixed name.
func sourceOf(f arrow.Field) (source string, ok bool) {
	source = schemas.Source(f)
	if source == "" {
		return "", f.Name == schemas.Column("")
	}
	return source, !strings.HasPrefix(f.Name, "_penstock_")
}

func (m *Mapper) columnAt(t *table, source string) *column {
	if c, ok := t.sources[source]; ok {
		return c
	}
	return m.addColumn(t, t.namer.Name(source), source, schemas.Null)
}

func (m *Mapper) addColumn(t *table, name, source string, typ arrow.DataType) *column {
	c := &column{mem: m.mem, name: name, source: source, typ: typ}
	// Find the declared type by the name in the source. If several fields differ only in case, one of them gets the
	// plain column name. Types must not depend on which one.
	c.counted, c.always = kindOf(typ) != kindNone, m.always(t, source)
	if d, ok := m.declared[schemas.Column(t.path+source)]; ok {
		c.declared = d
		c.typ = schemas.Join(c.typ, d)
	}
	c.quoted = c.declared == nil && isDecimal(typ) // see inferDecimals
	if k := m.rules.at(t.path + source); k != nil {
		c.rule(k)
	}
	c.settle()
	if c.kind != kindNone {
		m.bound.admit(c)
	}
	t.columns = append(t.columns, c)
	t.sources[source] = c
	if m.renamed(t.path+source) != "" {
		name = schemas.Column(source) // the key has the names of the source
	}
	if i := slices.Index(m.stream.Key, name); i >= 0 && t.parent == nil {
		m.key[i], c.key = c, true
	}
	m.layout++
	return c
}

// add adds a row for an element of an array. The array is in the row parentRow of the parent table, and the element
// has this index.
func (t *table) add(parentRow, index int) (row int) {
	row = t.rows
	t.rows++
	t.used = true
	t.parentRow = append(t.parentRow, int32(parentRow))
	t.position = append(t.position, int32(index))
	return row
}

func (t *table) truncate(row int) {
	t.rows = row
	if t.parent != nil {
		t.parentRow, t.position = t.parentRow[:row], t.position[:row]
	}
	for _, c := range t.columns {
		c.truncate(row)
	}
	for _, child := range t.children {
		left := child.rows
		for left > 0 && int(child.parentRow[left-1]) >= row {
			left--
		}
		child.truncate(left)
	}
}

// clear removes all rows of t and of the tables below it. It prepares each column for its current type.
func (t *table) clear() {
	t.rows = 0
	t.parentRow, t.position = t.parentRow[:0], t.position[:0]
	for _, c := range t.columns {
		c.settle()
	}
	for _, child := range t.children {
		child.clear()
	}
}

func (t *table) each(f func(*table)) {
	f(t)
	for _, child := range t.children {
		child.each(f)
	}
}
