package transform

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform/jsonscan"
)

// store stores the token r.scan.Token in the column of f, and widens the column's type if necessary. For a negative
// zero, a numeric column stores zero, and a reject is added. If the column has become a JSON column, store returns
// false, and the caller stores the value. // Invariant 11
func (r *reader) store(f *field, row int) bool {
	c, t := f.column, &r.scan.Token
	if !c.store(row, t) {
		r.tables.widen(c, schemas.Join(c.typ, c.typeOf(t)))
		if c.kind == kindJSON {
			return false
		}
		if c.kind != kindStale && !c.store(row, t) {
			// This code is not reached as long as store() and typeOf() agree. A text column can hold any scalar.
			r.tables.widen(c, schemas.Join(c.typ, schemas.Text))
			c.store(row, t)
		}
		if c.kind == kindStale {
			c.n = row + 1
			return true
		}
	}
	if c.losesSign(t) {
		r.rejects.value(f, row, t.Raw, minusZero)
	}
	return true
}

func (c *column) typeOf(t *jsonscan.Token) arrow.DataType {
	if c.verbatim {
		return schemas.Text
	}
	return c.scalarType(t)
}

// scalarType returns the narrowest type for t in this column, regardless of masks.
func (c *column) scalarType(t *jsonscan.Token) arrow.DataType {
	if c.quoted && t.Kind == '"' {
		if n, ok := t.PlainNumber(); ok && n.Fraction {
			if typ, fits := decimalType(&n); fits {
				return typ
			}
		}
	}
	return typeOf(c.declared, t)
}

// losesSign reports whether t is a negative zero, which c stores as zero.
func (c *vector) losesSign(t *jsonscan.Token) bool {
	if c.kind != kindInt && c.kind != kindDecimal {
		return false
	}
	n := t.Number()
	return n.MinusZero()
}

// store stores t in a row. It returns false if the type of the column cannot hold t.
func (c *column) store(row int, t *jsonscan.Token) bool {
	if c.kind == kindText || c.kind == kindJSON {
		return c.put(row, t, nil)
	}
	return c.kind > kindStale && c.kind != kindList && c.put(row, t, c.scalarType(t))
}

// put stores t in a row. The parameter `typ` is the narrowest type for t. If the vector has texts or JSON, put ignores
// `typ`. The result is false if the type of the vector cannot hold t.
func (c *vector) put(row int, t *jsonscan.Token, typ arrow.DataType) bool {
	switch c.kind {
	case kindText:
		c.putBytes(row, t.Spelling())
		return true
	case kindJSON:
		c.putBytes(row, t.Raw)
		return true
	case kindDecimal:
		return c.putDecimal(row, t, typ)
	}
	if kindOf(typ) != c.kind || c.kind <= kindStale || c.kind == kindList {
		return false
	}
	if c.kind == kindBool {
		v, ok := flag(t.Spelling())
		c.putBool(row, ok && v || t.Kind == 't')
		return true
	}
	c.at(row)
	switch c.kind {
	case kindInt:
		n := t.Number()
		c.ints[row], _ = n.Int64()
	case kindFloat:
		n := t.Number()
		c.floats[row], _ = n.Float()
	case kindDate:
		c.dates[row], _ = jsonscan.ParseDate(t.Text)
	case kindTime:
		c.ints[row], _ = jsonscan.ParseTime(t.Text)
	}
	c.set(row)
	return true
}

func (c *vector) putBytes(row int, s []byte) {
	c.at(row)
	if c.used+len(s) > len(c.data) {
		c.stretch(c.used, len(s))
	}
	c.used += copy(c.data[c.used:], s)
	c.offsets[row+1] = int32(c.used)
	c.set(row)
}

func (c *vector) putDecimal(row int, t *jsonscan.Token, typ arrow.DataType) bool {
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
	n := t.Number()
	c.at(row)
	c.decimals[row] = decimal128.New(n.Int128(c.scale))
	c.set(row)
	return true
}
