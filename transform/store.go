package transform

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// store stores the token m.tok in the column of f, and widens the column's type if necessary. A numeric column stores
// negative zero as zero, and store adds a reject. store returns false if the column has become a JSON column. The
// caller then stores the value. // Invariant 11
func (m *Mapper) store(f *field, row int) bool {
	c, t := f.column, &m.tok
	if !c.store(row, t) {
		m.widen(c, schemas.Join(c.typ, c.typeOf(t)))
		if c.kind == kindJSON {
			return false
		}
		if c.kind != kindStale && !c.store(row, t) {
			// Not reached as long as store and typeOf agree. A text column can hold any scalar.
			m.widen(c, schemas.Join(c.typ, schemas.Text))
			c.store(row, t)
		}
		if c.kind == kindStale {
			c.n = row + 1
			return true
		}
	}
	if c.losesSign(t) {
		m.rejectValue(f, row, t.raw, minusZero)
	}
	return true
}

func (c *column) typeOf(t *token) arrow.DataType {
	if c.verbatim {
		return schemas.Text
	}
	return c.scalarType(t)
}

// scalarType returns the narrowest type for t in this column, regardless of masks.
func (c *column) scalarType(t *token) arrow.DataType {
	if c.quoted && t.kind == '"' {
		if n, ok := t.plainNumber(); ok && n.fraction {
			if typ, fits := n.decimalType(); fits {
				return typ
			}
		}
	}
	return typeOf(c.declared, t)
}

// losesSign reports whether t is a negative zero, which c stores as zero.
func (c *column) losesSign(t *token) bool {
	if c.kind != kindInt && c.kind != kindDecimal {
		return false
	}
	n := t.number()
	return n.minusZero()
}

// store stores t in a row. It returns false if the type of the column cannot hold t.
func (c *column) store(row int, t *token) bool {
	switch c.kind {
	case kindText:
		c.putBytes(row, t.spelling())
		return true
	case kindJSON:
		c.putBytes(row, t.raw)
		return true
	case kindNone, kindStale, kindList:
		return false
	}
	typ := c.scalarType(t)
	switch c.kind {
	case kindBool:
		return typ == schemas.Bool && c.storeBool(row, t)
	case kindInt:
		return typ == schemas.Int64 && c.storeInt(row, t)
	case kindFloat:
		return typ == schemas.Float64 && c.storeFloat(row, t)
	case kindDecimal:
		return c.storeDecimal(row, t, typ)
	case kindDate:
		return typ == schemas.Date && c.storeDate(row, t)
	case kindTime:
		return typ == schemas.Timestamp && c.storeTime(row, t)
	}
	return false
}

// spelling returns the content of a string, and any other token as the source spelled it.
func (t *token) spelling() []byte {
	if t.kind == '"' {
		return t.text
	}
	return t.raw
}

func (t *token) number() numeral {
	if t.kind == '"' {
		n, _ := t.plainNumber()
		return n
	}
	return t.numeral
}

func (c *column) putBytes(row int, s []byte) {
	c.at(row)
	if c.used+len(s) > len(c.data) {
		c.stretch(c.used, len(s))
	}
	c.used += copy(c.data[c.used:], s)
	c.offsets[row+1] = int32(c.used)
	c.set(row)
}

func (c *column) storeBool(row int, t *token) bool {
	v, ok := flag(t.spelling())
	c.putBool(row, ok && v || t.kind == 't')
	return true
}

func (c *column) storeInt(row int, t *token) bool {
	n := t.number()
	v, _ := n.int64()
	c.at(row)
	c.ints[row] = v
	c.set(row)
	return true
}

func (c *column) storeFloat(row int, t *token) bool {
	n := t.number()
	v, _ := n.float()
	c.at(row)
	c.floats[row] = v
	c.set(row)
	return true
}

func (c *column) storeDecimal(row int, t *token, typ arrow.DataType) bool {
	switch typ := typ.(type) {
	case *arrow.Int64Type:
		if !c.anyInt {
			return false
		}
	case *arrow.Decimal128Type:
		if typ.Scale > c.scale || typ.Precision-typ.Scale > c.whole {
			return false
		}
	default:
		return false
	}
	n := t.number()
	c.at(row)
	c.decimals[row] = n.decimal(c.scale)
	c.set(row)
	return true
}

func (c *column) storeDate(row int, t *token) bool {
	v, _ := parseDate(t.text)
	c.at(row)
	c.dates[row] = v
	c.set(row)
	return true
}

func (c *column) storeTime(row int, t *token) bool {
	v, _ := parseTime(t.text)
	c.at(row)
	c.ints[row] = v
	c.set(row)
	return true
}
