package transform

import (
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/penstock-data/penstock/schemas"
)

// tableSet has the tables of a stream, with the columns and types that the records so far require.
type tableSet struct {
	stream   schemas.Stream
	rules    *fieldRules
	known    []schemas.Table           // tables in the destination
	declared map[string]arrow.DataType // declared types, by the path of the column
	volatile map[string]bool
	mem      memory.Allocator
	namer    *schemas.Namer

	root    *table
	key     recordKey
	bound   bound
	version int // grows when a table gets a column or a type is widened

	changes []change
	stale   bool // a type was widened, so the pages must be read again
}

func newTableSet(stream schemas.Stream, known []schemas.Table) tableSet {
	s := tableSet{
		stream:   stream,
		rules:    newFieldRules(stream),
		known:    known,
		declared: make(map[string]arrow.DataType, len(stream.Types)),
		volatile: make(map[string]bool, len(stream.Volatile)),
		mem:      memory.DefaultAllocator,
		bound:    newBound(stream, known),
	}
	s.key = recordKey{names: stream.Key, columns: make([]*column, len(stream.Key)), rules: s.rules}
	for path, name := range stream.Types {
		if t, err := schemas.ParseType(name); err == nil {
			s.declared[path] = t
		}
	}
	for _, name := range stream.Volatile {
		s.volatile[name] = true
	}
	return s
}

// begin creates the root table, with the columns that the destination has.
func (s *tableSet) begin() {
	s.namer = schemas.NewTableNamer(s.stream.Table.Name, s.knownPaths())
	s.root = s.newTable(s.stream.Table.Name, "", nil)
	s.root.used = true
	s.root.object = newObject(s.root, "", 1, 1)
	s.root.object.root = true
}

func (s *tableSet) knownPaths() map[string]string {
	paths := map[string]string{}
	for _, t := range s.known {
		if place := placeOf(t); place != "" {
			paths[place] = t.Name
		}
	}
	return paths
}

// newTable returns a table that begins with the columns of the table in the destination, if there is one.
func (s *tableSet) newTable(name, path string, parent *table) *table {
	t := &table{name: name, path: path, parent: parent, sources: map[string]*column{}, layout: -1}
	fields, found := s.knownFields(name)
	t.used, t.known = found, found
	known, names := map[string]arrow.Field{}, map[string]string{}
	for _, f := range fields {
		source, ok := sourceOf(f)
		if !ok || !s.stillNamed(path+source, f, known[source]) {
			continue
		}
		known[source] = f
		if names[source] = f.Name; s.rules.renamed(path+source) == f.Name {
			delete(names, source) // the mapper uses the original name, and the shaper renames the column
		}
	}
	t.namer = schemas.NewNamer(names)
	for _, f := range fields {
		t.namer.Reserve(f.Name)
	}
	if parent == nil {
		for _, name := range s.stream.Key {
			t.namer.Keep(name)
		}
	}
	for _, f := range fields {
		if source, _ := sourceOf(f); known[source].Name == f.Name {
			s.addColumn(t, t.namer.Name(source), source, schemas.TypeOf(f))
		}
		if f.Name == schemas.ColRest && parent == nil {
			s.addRest(t)
		}
	}
	if parent != nil {
		t.level = parent.level + 1
		parent.children = append(parent.children, t)
	}
	return t
}

// stillNamed reports whether f is the current column of its field. If a field was renamed, the destination may have two
// columns for it. The argument `other` is the column of the same field that was found before f, or the zero value.
func (s *tableSet) stillNamed(pointer string, f, other arrow.Field) bool {
	name := s.rules.renamed(pointer)
	if name == "" {
		name = schemas.Column(schemas.Source(f))
	}
	return other.Name == "" || f.Name == name
}

// child returns the table for the objects of an array. The second argument is the JSON pointer from a row of the parent
// to the array.
//
// A member such as /items may be an array of objects in one record and an object in another record. For an array inside
// this member, such as /items/taxes, the rows then have different parents: rows of items in the first case, and the row
// of the record in the second case. So the rows are stored in two tables with the same path. Invariant 17
func (s *tableSet) child(parent *table, within string, depth, level int) *table {
	for _, t := range parent.children {
		if t.within == within {
			return t
		}
	}
	path := parent.path + within
	place := path
	if s.taken(path, parent.level > 0) {
		place += "/"
	}
	t := s.newTable(s.namer.Name(place), path, parent)
	t.place = place
	t.within = within
	t.object = newObject(t, "", depth+1, level+2)
	return t
}

// The method taken() reports whether a path is already the path of a table of the other kind. There are two kinds of
// child tables: children of the root table, and children of child tables. The last argument is true if the caller needs
// the path for a child of a child table.
func (s *tableSet) taken(path string, deep bool) (taken bool) {
	s.root.each(func(t *table) {
		taken = taken || t.place == path && (t.level > 1) != deep
	})
	for _, t := range s.known {
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

func (s *tableSet) knownFields(name string) (fields []arrow.Field, found bool) {
	i := slices.IndexFunc(s.known, func(t schemas.Table) bool { return t.Name == name })
	if i < 0 || s.known[i].Columns == nil {
		return nil, i >= 0
	}
	return s.known[i].Columns.Fields(), true
}

// sourceOf returns the pointer of the field that a column holds. It returns false for penstock's own columns and for
// columns that users have added. The column for records that are not objects has the pointer "" and a fixed name.
func sourceOf(f arrow.Field) (source string, ok bool) {
	source = schemas.Source(f)
	if source == "" {
		return "", f.Name == schemas.Column("")
	}
	return source, !strings.HasPrefix(f.Name, "_penstock_")
}

func (s *tableSet) columnAt(t *table, source string) *column {
	if c, ok := t.sources[source]; ok {
		return c
	}
	return s.addColumn(t, t.namer.Name(source), source, schemas.Null)
}

func (s *tableSet) addColumn(t *table, name, source string, typ arrow.DataType) *column {
	c := &column{vector: vector{mem: s.mem, typ: typ}, name: name, source: source}
	// Find the declared type by the name in the source. If several fields differ only in case, the first of them gets the
	// plain column name. The declared type must not depend on which field comes first.
	c.counted, c.always = kindOf(typ) != kindNone, s.always(t, source)
	if d, ok := s.declared[schemas.Column(t.path+source)]; ok {
		c.declared = d
		c.typ = schemas.Join(c.typ, d)
	}
	c.quoted = c.declared == nil && isDecimal(typ) // see inferDecimals
	if k := s.rules.at(t.path + source); k != nil {
		c.rule(k)
	}
	c.settle()
	if c.kind != kindNone {
		s.bound.admit(c)
	}
	t.columns = append(t.columns, c)
	t.sources[source] = c
	if s.rules.renamed(t.path+source) != "" {
		name = schemas.Column(source) // the key has the names of the source
	}
	if i := slices.Index(s.stream.Key, name); i >= 0 && t.parent == nil {
		s.key.columns[i], c.key = c, true
	}
	s.version++
	return c
}

func (s *tableSet) addRest(t *table) {
	t.rest = &column{vector: vector{mem: s.mem, typ: schemas.JSON}, name: schemas.ColRest}
	t.rest.settle()
	t.columns = append(t.columns, t.rest)
	s.version++
}

// The method always() reports whether the field gets a column even beyond the limit. This applies to fields that the
// stream or its rules name, and to the field for records that are not objects.
func (s *tableSet) always(t *table, pointer string) bool {
	path := schemas.Column(t.path + pointer)
	if _, declared := s.declared[path]; declared || s.rules.filters(path) {
		return true
	}
	if t.parent != nil || pointer == "" {
		return pointer == ""
	}
	name := unescapePointer.Replace(pointer[1:])
	return name == contextName || s.volatile[name] || slices.Contains(s.stream.Key, path)
}

func (s *tableSet) knows(path string) bool {
	return slices.ContainsFunc(s.known, func(t schemas.Table) bool { return strings.TrimSuffix(placeOf(t), "/") == path })
}

func (s *tableSet) named(name string) (found *table) {
	s.root.each(func(t *table) {
		if t.name == name {
			found = t
		}
	})
	return found
}
