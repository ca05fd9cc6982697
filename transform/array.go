package transform

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform/jsonscan"
)

func (m *Mapper) array(f *field, i, row int) (end int) {
	b := m.raw
	c := f.column
	if c.key {
		return refuseKey
	}
	if c.declaredJSON() {
		return m.opaque(f, i, row)
	}
	k := jsonscan.Space(b, i+1)
	switch {
	case b[k] == ']' && c.kind != kindJSON:
		m.emptyList(c, row)
		return k + 1
	case (b[k] == '{' || b[k] == 'n' && jsonscan.ObjectAfterNulls(b, k)) && f.owner.depth < maxDepth && c.source != "":
		end = m.children(f, k, row)
	case c.kind == kindList:
		end = m.list(f, k, row)
	}
	if end != decline {
		return end
	}
	return m.anyArray(f, i, row)
}

// emptyList stores an empty array. In a column of scalars it stores null, because the platform also writes [] if
// there is no such object.
func (m *Mapper) emptyList(c *column, row int) {
	switch c.kind {
	case kindList:
		c.at(row)
		c.offsets[row+1] = int32(c.items)
		c.set(row)
	case kindNone:
		if !c.empty {
			m.widen(c, schemas.Join(c.typ, schemas.Empty))
			c.empty = true
		}
	default:
		c.empty = true // if the column becomes JSON, the pages are read again, and the array is stored as []
	}
}

// list reads an array of scalars. i is the position of the first element.
func (m *Mapper) list(f *field, i, row int) (end int) {
	b := m.raw
	c := f.column
	e := c.elem
	k := m.mark()
	c.at(row)
	for n := c.items; ; n++ {
		if i = m.element(e, i, n); i <= 0 {
			break
		}
		if m.scan.Kind != 0 && e.losesSign(&m.scan.Token) {
			m.rejectElement(f, row, n-c.items)
		}
		if b[i] <= ' ' {
			i = jsonscan.Space(b, i)
		}
		if b[i] == ']' {
			c.items = n + 1
			c.offsets[row+1] = int32(c.items)
			c.set(row)
			return i + 1
		}
		if b[i] != ',' {
			i = refuseSyntax
			break
		}
		i = jsonscan.Space(b, i+1)
	}
	e.truncate(c.items)
	m.rejects = m.rejects[:k.rejects]
	return i
}

func (m *Mapper) element(e *column, i, n int) (end int) {
	b := m.raw
	m.scan.Kind = 0
	switch e.kind {
	case kindText:
		if b[i] == '"' {
			return e.text(n, b, i+1)
		}
	case kindInt:
		if end = e.int(n, b, i); end != decline {
			return end
		}
	}
	switch b[i] {
	case 'n':
		return jsonscan.Null(m.raw, i)
	case '{', '[':
		return decline
	}
	if end = m.scan.Scan(m.raw, i); end > 0 && !e.store(n, &m.scan.Token) {
		return decline
	}
	return end
}

// children reads an array of objects into child rows. i is the position of the first element. Each null among the
// objects becomes a reject. If an element is neither an object nor null, children stores nothing and returns decline.
func (m *Mapper) children(f *field, i, row int) (end int) {
	b := m.raw
	if f.rows == nil {
		f.rows = m.childTable(f.owner.table, f.column.source, f.owner.depth, f.owner.level)
	}
	t := f.rows
	if !t.used && m.bound.tables >= m.bound.maxTables {
		return refuseBound
	}
	k, first := m.mark(), t.rows
	for n := 0; ; n++ {
		switch {
		case b[i] == 'n':
			if i = jsonscan.Null(m.raw, i); i > 0 {
				m.rejectNull(f, row, n)
			}
		case b[i] != '{' || m.walk.NumericNames(m.raw, i):
			m.undo(k, t, first)
			return decline
		case m.overflows():
			return refuseWide
		default:
			m.bound.countTable(t)
			i = m.members(t.object, i+1, t.add(row, n))
		}
		if i < 0 {
			return i
		}
		if b[i] <= ' ' {
			i = jsonscan.Space(b, i)
		}
		if b[i] == ']' {
			return i + 1
		}
		if b[i] != ',' {
			return refuseSyntax
		}
		i = jsonscan.Space(b, i+1)
	}
}

func (m *Mapper) anyArray(f *field, i, row int) (end int) {
	c := f.column
	if c.kind == kindJSON {
		return m.opaque(f, i, row)
	}
	typ, end := m.elementType(c, i)
	if end < 0 {
		return end
	}
	if typ == nil {
		return m.opaque(f, i, row)
	}
	m.widen(c, schemas.Join(c.typ, typ))
	switch {
	case c.kind == kindStale:
		c.n = row + 1
	case c.kind == kindJSON:
		return m.opaque(f, i, row)
	case c.kind == kindList:
		if i := m.list(f, jsonscan.Space(m.raw, i+1), row); i != decline {
			return i
		}
		return m.opaque(f, i, row)
	default:
		c.empty = true
		m.rejectValue(f, row, m.raw[i:end], "a list of nulls in a column that is not a list")
	}
	return end
}

// typeOfElement ignores the column's declared type, because the declaration is not about the elements of a list.
func (c *column) typeOfElement(t *jsonscan.Token) arrow.DataType {
	if c.verbatim {
		return schemas.Text
	}
	return typeOf(nil, t)
}

// elementType returns the type of the list at i. list is nil if an element is not a scalar. end is the position after
// the array, or a negative code.
func (m *Mapper) elementType(c *column, i int) (list arrow.DataType, end int) {
	b := m.raw
	elem := schemas.Null
	for {
		i = jsonscan.Space(b, i+1)
		switch b[i] {
		case '{', '[':
			return nil, i
		case 'n':
			end = jsonscan.Null(m.raw, i)
		default:
			if end = m.scan.Scan(m.raw, i); end > 0 {
				elem = schemas.Join(elem, c.typeOfElement(&m.scan.Token))
			}
		}
		if end < 0 {
			return nil, end
		}
		if i = jsonscan.Space(b, end); b[i] != ',' {
			break
		}
	}
	if b[i] != ']' {
		return nil, refuseSyntax
	}
	return arrow.ListOf(elem), i + 1
}
