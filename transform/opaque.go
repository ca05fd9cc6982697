package transform

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-data/penstock/schemas"
)

// opaque stores the value at i as it stands in a column of JSON text.
func (m *Mapper) opaque(f *field, i, row int) (end int) {
	end, depth, ok := m.walk.value(m.raw, i)
	if !ok {
		return refuseSyntax
	}
	if f.owner.level+depth > maxLevels {
		return refuseDepth
	}
	value := m.raw[i:end]
	if code := strict(value); code != 0 {
		return code
	}
	if m.rulings.any() {
		value = m.opaqueRuled(f, i, end)
	}
	c := f.column
	m.widen(c, schemas.JSON)
	if c.kind == kindStale {
		c.n = row + 1
		return end
	}
	c.putBytes(row, value)
	return end
}

func (c *column) declaredJSON() bool { return c.declared != nil && kindOf(c.declared) == kindJSON }

// strict is the strict path: it reads a value, which the grammar allows and
// which is not too deep, with jsontext, and says why a record with such a value
// cannot be kept; 0 where it can.
func strict(value jsontext.Value) (code int) {
	if value.IsValid() {
		return 0
	}
	if value.IsValid(jsontext.AllowDuplicateNames(true)) {
		return refuseDuplicate
	}
	return refuseEncoding
}
