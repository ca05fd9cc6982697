package transform

import (
	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/decimal128"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform/jsonscan"
)

// store stores the token r.scan.Token in the column of f, and widens the column's type if necessary. A numeric column stores
// negative zero as zero, and store adds a reject. store returns false if the column has become a JSON column. The
// caller then stores the value. // Invariant 11
func (r *reader) store(f *field, row int) bool {
	c, t := f.column, &r.scan.Token
	if !c.store(row, t) {
		r.tables.widen(c, schemas.Join(c.typ, c.typeOf(t)))
		if c.kind == kindJSON {
			return false
		}
		if c.kind != kindStale && !c.store(row, t) {
			// Not reached as long as store and typeOf agree. A text column can hold any scalar.
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
func (c *column) losesSign(t *jsonscan.Token) bool {
	if c.kind != kindInt && c.kind != kindDecimal {
		return false
	}
	n := t.Number()
	return n.MinusZero()
}

// store stores t in a row. It returns false if the type of the column cannot hold t.
func (c *column) store(row int, t *jsonscan.Token) bool {
	switch c.kind {
	case kindText:
		c.putBytes(row, t.Spelling())
		return true
	case kindJSON:
		c.putBytes(row, t.Raw)
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

func (c *column) putBytes(row int, s []byte) {
	c.at(row)
	if c.used+len(s) > len(c.data) {
		c.stretch(c.used, len(s))
	}
	c.used += copy(c.data[c.used:], s)
	c.offsets[row+1] = int32(c.used)
	c.set(row)
}

func (c *column) storeBool(row int, t *jsonscan.Token) bool {
	v, ok := flag(t.Spelling())
	c.putBool(row, ok && v || t.Kind == 't')
	return true
}

func (c *column) storeInt(row int, t *jsonscan.Token) bool {
	n := t.Number()
	v, _ := n.Int64()
	c.at(row)
	c.ints[row] = v
	c.set(row)
	return true
}

func (c *column) storeFloat(row int, t *jsonscan.Token) bool {
	n := t.Number()
	v, _ := n.Float()
	c.at(row)
	c.floats[row] = v
	c.set(row)
	return true
}

func (c *column) storeDecimal(row int, t *jsonscan.Token, typ arrow.DataType) bool {
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

func (c *column) storeDate(row int, t *jsonscan.Token) bool {
	v, _ := jsonscan.ParseDate(t.Text)
	c.at(row)
	c.dates[row] = v
	c.set(row)
	return true
}

func (c *column) storeTime(row int, t *jsonscan.Token) bool {
	v, _ := jsonscan.ParseTime(t.Text)
	c.at(row)
	c.ints[row] = v
	c.set(row)
	return true
}
