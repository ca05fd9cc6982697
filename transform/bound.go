package transform

import (
	"slices"

	"github.com/penstock-data/penstock/schemas"
)

// A source may send any number of member names. So a stream has a limit of columns and a limit of child tables. The
// values of a record beyond a limit are stored together, as one JSON value: see rest.go.
//
// A column counts toward the limit as soon as it has a type. The columns that the destination already has are counted
// before the first page. So after a pass has reached the limit, later passes use the same columns, even if the members
// of the records come in another order. // Invariant 6

const (
	maxNameBytes = 1024 // longer member names get no column
	spareFields  = 2000 // fields without a column: objects, and members that were always null
)

type bound struct {
	maxColumns, maxTables int
	columns, tables       int
	fields                int       // number of fields, with or without a column
	admitted              []*column // columns that were counted in the current page
	exceeded              bool      // the current record has values beyond a limit
	// crossed means that the previous record had values beyond a limit. Then the values of the next record are divided
	// between its columns and [schemas.ColRest] directly, without a first attempt to store all of them in columns.
	crossed bool
	beyond  []string // pointers of the first few fields beyond a limit
	nothing field    // shared field of members that are beyond the limit and have no value
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

func (b *bound) dismiss(n int) {
	for _, c := range b.admitted[n:] {
		c.counted = false
		b.columns--
	}
	b.admitted = b.admitted[:n]
}

func (b *bound) countTable(t *table) {
	if !t.used {
		b.tables++
	}
}

func (b *bound) roomFor(name string, limit int) bool {
	if len(name) > maxNameBytes || b.fields >= limit {
		return false
	}
	b.fields++
	return true
}

func (b *bound) noteBeyond(pointers []string) {
	for _, p := range pointers {
		if len(b.beyond) < maxBeyond && !slices.Contains(b.beyond, p) {
			b.beyond = append(b.beyond, p)
		}
	}
}

const maxBeyond = 3

// BeyondLimit returns the pointers of up to three fields that have neither a column nor a child table, because the
// stream has reached a limit. Their values are in [schemas.ColRest]. BeyondLimit returns none if all fields fit.
func (m *Mapper) BeyondLimit() []string { return m.tables.bound.beyond }
