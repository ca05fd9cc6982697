package transform

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// Many sources write amounts as text: "1250.00". A column with only such texts becomes a decimal
// column. That is decided once, with the first batch of a table that no destination has yet, if there
// are enough values. A column that is a decimal in the destination accepts such texts afterwards. A
// later value of another form is kept, and widens the column to text. // Invariant 11

// quotedDecimals is how many texts a column must have to become a decimal column. All of them must be
// plain decimals of one scale.
const quotedDecimals = 1000

// inferDecimals turns text columns of the batch that have only such texts into decimal columns. If it returns true,
// there are some, and the batch must be read again.
func (m *Mapper) inferDecimals() bool {
	m.root.each(func(t *table) {
		if t.known {
			return
		}
		for _, c := range t.columns {
			if c.kind != kindText || c.declared != nil || c.verbatim || c.key || c.n < quotedDecimals {
				continue
			}
			if typ, ok := c.decimalOfTexts(); ok {
				c.quoted, c.typ = true, typ
				m.layout++
				m.stale = true
			}
		}
	})
	return m.stale
}

// decimalOfTexts returns the decimal type that holds all texts of c; false if there are too few, or one
// is not a plain decimal of the same scale.
func (c *column) decimalOfTexts() (arrow.DataType, bool) {
	texts, scale, whole := 0, 0, 0
	for row := range c.n {
		if c.null(row) {
			continue
		}
		t := token{kind: '"', text: c.cell(row)}
		n, ok := t.plainNumber()
		if !ok || !n.fraction || n.minusZero() || texts > 0 && n.scale != scale {
			return nil, false
		}
		texts, scale, whole = texts+1, n.scale, max(whole, n.whole())
	}
	if texts < quotedDecimals || whole > 38 || scale > 38 {
		return nil, false
	}
	return schemas.Decimal(int32(whole), int32(scale))
}
