package transform

import (
	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform/jsonscan"
)

// Many sources write amounts as text, such as "1250.00". If a column has only such texts, and at least quotedDecimals
// of them, it becomes a decimal column. This is decided once, with the first batch of a pass, and only if the
// destination does not have the table yet.
//
// Later, a column that is a decimal in the destination accepts such texts. If a later value has another form, the
// column is widened to text, so the value is kept. // Invariant 11

const quotedDecimals = 1000

// inferDecimals turns text columns of the batch into decimal columns. If it returns true, the batch must be read
// again.
func (s *tableSet) inferDecimals() bool {
	s.root.each(func(t *table) {
		if t.known {
			return
		}
		for _, c := range t.columns {
			if c.kind != kindText || c.declared != nil || c.verbatim || c.key || c.n < quotedDecimals {
				continue
			}
			if typ, ok := c.decimalOfTexts(); ok {
				c.quoted, c.typ = true, typ
				s.version++
				s.stale = true
			}
		}
	})
	return s.stale
}

// decimalOfTexts returns the decimal type for the texts of a column. It returns false in four cases: there are too few
// texts, a text is not a plain decimal, the texts differ in the number of digits after the point, or no decimal type
// has enough digits.
func (c *column) decimalOfTexts() (arrow.DataType, bool) {
	texts, scale, whole := 0, 0, 0
	for row := range c.n {
		if c.null(row) {
			continue
		}
		t := jsonscan.Token{Kind: '"', Text: c.cell(row)}
		n, ok := t.PlainNumber()
		if !ok || !n.Fraction || n.MinusZero() || texts > 0 && n.Scale != scale {
			return nil, false
		}
		texts, scale, whole = texts+1, n.Scale, max(whole, n.Whole())
	}
	if texts < quotedDecimals || whole > 38 || scale > 38 {
		return nil, false
	}
	return schemas.Decimal(int32(whole), int32(scale))
}
