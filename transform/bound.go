package transform

import (
	"slices"

	"github.com/penstock-data/penstock/schemas"
)

// A source may send any number of member names. A stream has at most so many columns
// and child tables; what comes after them is one JSON value of the record, see
// rest.go. A column counts once it has a type. The columns that the destination's
// tables have count first, so that the order in which members come decides nothing
// once the bound is reached. // Invariant 6

const (
	maxNameBytes = 1024 // of a member that gets a column
	spareFields  = 2000 // fields beside the columns: objects, and members that were never more than null
)

// bound counts the columns and child tables of a stream.
type bound struct {
	maxColumns, maxTables int
	columns, tables       int
	fields                int       // learned, whether they have a column or not
	admitted              []*column // columns counted since the page began
	exceeded              bool      // the record at hand has more than fits
	beyond                []string  // the first few pointers of what did not fit
	nothing               field     // a member that has no value, and no field
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

// admit counts c, unless the destination has it. It reports false where there is no place for it.
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

// dismiss takes back the columns that were admitted after the first n.
func (b *bound) dismiss(n int) {
	for _, c := range b.admitted[n:] {
		c.counted = false
		b.columns--
	}
	b.admitted = b.admitted[:n]
}

// use counts a child table that gets its first row.
func (b *bound) use(t *table) {
	if !t.used {
		b.tables++
	}
}

// roomFor reports whether a member of this name may have a field where most have one
// at most, and counts it.
func (b *bound) roomFor(name string, most int) bool {
	if len(name) > maxNameBytes || b.fields >= most {
		return false
	}
	b.fields++
	return true
}

// unnamed is the field of a member that may have none: a shared one where the value
// at i holds nothing that a column could store, else nil.
func (m *Mapper) unnamed(o *object, i int) *field {
	if _, void := m.void(i, 0); !void {
		return nil
	}
	f := &m.bound.nothing
	*f = field{owner: o, next: o.first.next, special: true, void: true}
	f.expect("")
	return f
}

// void reports whether the value at i is null, [], {} or an object of such values,
// and where it ends.
func (m *Mapper) void(i, depth int) (end int, ok bool) {
	b := m.raw
	switch b[i] {
	case 'n':
		end = m.nothing(i)
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

// note keeps the pointers of a few fields that are beyond the bound, to show them.
func (b *bound) note(pointers []string) {
	for _, p := range pointers {
		if len(b.beyond) < maxBeyond && !slices.Contains(b.beyond, p) {
			b.beyond = append(b.beyond, p)
		}
	}
}

// maxBeyond is how many of them are shown.
const maxBeyond = 3

// always reports whether the field at a pointer of t has a column whatever the
// bound: the stream or its rules name it.
func (m *Mapper) always(t *table, pointer string) bool {
	path := schemas.Column(t.path + pointer)
	if _, declared := m.declared[path]; declared || m.rulings.filters(path) {
		return true
	}
	if t.parent != nil || pointer == "" {
		return pointer == ""
	}
	name := unescapePointer.Replace(pointer[1:])
	return name == contextName || m.volatile[name] || slices.Contains(m.stream.Key, path)
}

// Beyond are pointers of some fields that have neither a column nor a child table,
// because the stream has as many as it may: their values are in [schemas.ColRest].
// There is none as long as everything fits.
func (m *Mapper) Beyond() []string { return m.bound.beyond }
