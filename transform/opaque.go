package transform

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-data/penstock/schemas"
)

// opaque stores the value at i as JSON text. The text is unchanged, except where a rule masks or drops a field in it.
func (m *Mapper) opaque(f *field, i, row int) (end int) {
	end, depth, ok := m.walk.Value(m.raw, i)
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

// strict returns 0 if the value can be stored, and otherwise a refusal code. The value must have valid JSON syntax,
// and must not be nested too deeply.
func strict(value jsontext.Value) (code int) {
	if value.IsValid() {
		return 0
	}
	if value.IsValid(jsontext.AllowDuplicateNames(true)) {
		return refuseDuplicate
	}
	return refuseEncoding
}
