package transform

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-data/penstock/schemas"
)

// opaque stores the value at i unchanged in a JSON column.
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
	if m.rules.any() {
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

// strict checks a value with jsontext and returns the reason for which a record with this value cannot
// be stored; 0 if it can. The value must be valid JSON and not too deep.
func strict(value jsontext.Value) (code int) {
	if value.IsValid() {
		return 0
	}
	if value.IsValid(jsontext.AllowDuplicateNames(true)) {
		return refuseDuplicate
	}
	return refuseEncoding
}
