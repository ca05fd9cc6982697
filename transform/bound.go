package transform

import (
	"slices"

	"github.com/penstock-data/penstock/schemas"
)

// A source may send any number of member names, so the columns and child tables of a stream are
// limited. Values beyond the limit are stored as one JSON value per record, see rest.go. A column
// counts once it has a type. Columns of the destination's tables count first, so that the order of
// members is irrelevant once the limit is reached. // Invariant 6

const (
	maxNameBytes = 1024 // longer member names get no column
	spareFields  = 2000 // fields besides the columns: objects, and members that have only been null
)

// bound counts the columns and child tables of a stream.
type bound struct {
	maxColumns, maxTables int
	columns, tables       int
	fields                int       // fields created, with or without a column
	admitted              []*column // columns counted since the page began
	exceeded              bool      // the current record has values beyond the limit
	crossed               bool      // the previous record had such values: the next one is split at once
	beyond                []string  // pointers of the first few fields beyond the limit
	nothing               field     // shared field of members that have no value and no field
}

func newBound(s schemas.Stream, known []schemas.Table) bound {
	var b bound
	b.maxColumns, b.maxTables = s.Bounds()
	for _, t := range known {
		if t.Name != s.Table.Name {
			b.tables++
		}
		if t.Columns == nil {
			continue
		}
		for _, f := range t.Columns.Fields() {
			if _, ok := sourceOf(f); ok && kindOf(schemas.TypeOf(f)) != kindNone {
				b.columns++
			}
		}
	}
	return b
}

// admit counts c, unless c is already counted. It returns false if the limit is reached, so that c gets no values.
func (b *bound) admit(c *column) bool {
	if c.counted {
		return true
	}
	if b.columns >= b.maxColumns && !c.always {
		return false
	}
	c.counted = true
	b.columns++
	b.admitted = append(b.admitted, c)
	return true
}

// dismiss uncounts the columns that were admitted after the first n.
func (b *bound) dismiss(n int) {
	for _, c := range b.admitted[n:] {
		c.counted = false
		b.columns--
	}
	b.admitted = b.admitted[:n]
}

// countTable counts a child table that gets its first row.
func (b *bound) countTable(t *table) {
	if !t.used {
		b.tables++
	}
}

// roomFor reports whether a member of this name may get a field, and counts the field. No more than the given number
// of fields may exist.
func (b *bound) roomFor(name string, most int) bool {
	if len(name) > maxNameBytes || b.fields >= most {
		return false
	}
	b.fields++
	return true
}

// fieldBeyondLimit returns the field for a member beyond the limit: a shared one if the value at i is empty,
// else nil.
func (m *Mapper) fieldBeyondLimit(o *object, i int) *field {
	if _, void := m.void(i, 0); !void {
		return nil
	}
	f := &m.bound.nothing
	*f = field{owner: o, next: o.first.next, special: true, void: true}
	f.expect("")
	return f
}

// void reports whether the value at i is null, [], {} or an object with only such values, and where it
// ends.
func (m *Mapper) void(i, depth int) (end int, ok bool) {
	b := m.raw
	switch b[i] {
	case 'n':
		end = m.skipNull(i)
		return end, end > 0
	case '[':
		end = space(b, i+1)
		return end + 1, b[end] == ']'
	case '{':
		if i = space(b, i+1); b[i] == '}' {
			return i + 1, true
		}
	default:
		return i, false
	}
	for depth < maxDepth && b[i] == '"' {
		end, _ = text(b, i+1)
		if end < 0 {
			return i, false
		}
		if i = space(b, end); b[i] != ':' {
			return i, false
		}
		if i, ok = m.void(space(b, i+1), depth+1); !ok {
			return i, false
		}
		if i = space(b, i); b[i] == '}' {
			return i + 1, true
		}
		if b[i] != ',' {
			return i, false
		}
		i = space(b, i+1)
	}
	return i, false
}

// noteBeyond remembers the pointers of a few fields beyond the limit, for display.
func (b *bound) noteBeyond(pointers []string) {
	for _, p := range pointers {
		if len(b.beyond) < maxBeyond && !slices.Contains(b.beyond, p) {
			b.beyond = append(b.beyond, p)
		}
	}
}

// maxBeyond is the number of pointers that noteBeyond remembers.
const maxBeyond = 3

// always reports whether the field at a pointer of t gets a column regardless of the limit, because the
// stream or its rules name it.
func (m *Mapper) always(t *table, pointer string) bool {
	path := schemas.Column(t.path + pointer)
	if _, declared := m.declared[path]; declared || m.rules.filters(path) {
		return true
	}
	if t.parent != nil || pointer == "" {
		return pointer == ""
	}
	name := unescapePointer.Replace(pointer[1:])
	return name == contextName || m.volatile[name] || slices.Contains(m.stream.Key, path)
}

// BeyondLimit returns the pointers of some fields that have neither a column nor a child table because the
// stream has reached its limit. Their values are in [schemas.ColRest]. It returns none while everything
// fits.
func (m *Mapper) BeyondLimit() []string { return m.bound.beyond }
