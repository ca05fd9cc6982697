package transform

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform/jsonscan"
)

func (r *reader) array(f *field, i, row int) (end int) {
	b := r.b
	c := f.column
	if c.key {
		return refuseKey
	}
	if c.declaredJSON() {
		return r.opaque(f, i, row)
	}
	k := jsonscan.Space(b, i+1)
	switch {
	case b[k] == ']' && c.kind != kindJSON:
		r.emptyList(c, row)
		return k + 1
	case (b[k] == '{' || b[k] == 'n' && jsonscan.ObjectAfterNulls(b, k)) && f.owner.depth < maxDepth && c.source != "":
		end = r.children(f, k, row)
	case c.kind == kindList:
		end = r.list(f, k, row)
	}
	if end != decline {
		return end
	}
	return r.anyArray(f, i, row)
}

// emptyList stores an empty array. In a column of scalars, it stores null, because the platform also writes [] in the
// place of a missing object.
func (r *reader) emptyList(c *column, row int) {
	switch c.kind {
	case kindList:
		c.at(row)
		c.offsets[row+1] = int32(c.items)
		c.set(row)
	case kindNone:
		if !c.empty {
			r.tables.widen(c, schemas.Join(c.typ, schemas.Empty))
			c.empty = true
		}
	default:
		c.empty = true // if the column becomes JSON, the pages are read again, and the array is stored as []
	}
}

// list reads an array of scalars. The parameter i is the position of the first element.
func (r *reader) list(f *field, i, row int) (end int) {
	b := r.b
	c := f.column
	e := c.elem
	first := len(r.rejects.list)
	c.at(row)
	for n := c.items; ; n++ {
		if i = r.element(e, i, n); i <= 0 {
			break
		}
		if r.scan.Kind != 0 && e.losesSign(&r.scan.Token) {
			r.rejects.element(f, row, n-c.items, r.scan.Raw)
		}
		i = skipSpace(b, i)
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
	r.rejects.list = r.rejects.list[:first]
	return i
}

func (r *reader) element(e *vector, i, n int) (end int) {
	b := r.b
	r.scan.Kind = 0
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
		return jsonscan.Null(r.b, i)
	case '{', '[':
		return decline
	}
	if end = r.scan.Scan(r.b, i); end > 0 && !e.put(n, &r.scan.Token, typeOf(nil, &r.scan.Token)) {
		return decline
	}
	return end
}

// children reads an array of objects into child rows. The parameter i is the position of the first element. Each null
// among the objects becomes a reject. If an element is neither an object nor null, children stores nothing and returns
// the code `decline`.
func (r *reader) children(f *field, i, row int) (end int) {
	b := r.b
	if f.rows == nil {
		f.rows = r.tables.child(f.owner.table, f.column.source, f.owner.depth, f.owner.level)
	}
	t := f.rows
	if !t.used && r.tables.bound.tables >= r.tables.bound.maxTables {
		return refuseBound
	}
	k, first := r.mark(), t.rows
	for n := 0; ; n++ {
		switch {
		case b[i] == 'n':
			if i = jsonscan.Null(r.b, i); i > 0 {
				r.rejects.null(f, row, n)
			}
		case b[i] != '{' || r.walk.NumericNames(r.b, i):
			r.undo(k, t, first)
			return decline
		case r.overflows():
			return refuseWide
		default:
			r.tables.bound.countTable(t)
			i = r.members(t.object, i+1, t.add(row, n))
		}
		if i < 0 {
			return i
		}
		i = skipSpace(b, i)
		if b[i] == ']' {
			return i + 1
		}
		if b[i] != ',' {
			return refuseSyntax
		}
		i = jsonscan.Space(b, i+1)
	}
}

func (r *reader) anyArray(f *field, i, row int) (end int) {
	c := f.column
	if c.kind == kindJSON {
		return r.opaque(f, i, row)
	}
	typ, end := r.elementType(c, i)
	if end < 0 {
		return end
	}
	if typ == nil {
		return r.opaque(f, i, row)
	}
	r.tables.widen(c, schemas.Join(c.typ, typ))
	switch {
	case c.kind == kindStale:
		c.n = row + 1
	case c.kind == kindJSON:
		return r.opaque(f, i, row)
	case c.kind == kindList:
		if i := r.list(f, jsonscan.Space(r.b, i+1), row); i != decline {
			return i
		}
		return r.opaque(f, i, row)
	default:
		c.empty = true
		r.rejects.value(f, row, r.b[i:end], "a list of nulls in a column that is not a list")
	}
	return end
}

// typeOfElement returns the narrowest type for an element of a list. It ignores the column's declared type, which does
// not apply to the elements of a list.
func (c *column) typeOfElement(t *jsonscan.Token) arrow.DataType {
	if c.verbatim {
		return schemas.Text
	}
	return typeOf(nil, t)
}

// elementType returns the type of a list. The parameter i is the position of the list's opening bracket. The first
// result is nil if an element is not a scalar. The second result is the position after the array, or a negative code.
func (r *reader) elementType(c *column, i int) (list arrow.DataType, end int) {
	b := r.b
	elem := schemas.Null
	for {
		i = jsonscan.Space(b, i+1)
		switch b[i] {
		case '{', '[':
			return nil, i
		case 'n':
			end = jsonscan.Null(r.b, i)
		default:
			if end = r.scan.Scan(r.b, i); end > 0 {
				elem = schemas.Join(elem, c.typeOfElement(&r.scan.Token))
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
