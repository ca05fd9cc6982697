package transform

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-data/penstock/schemas"
)

// opaque stores the value at i as JSON text. The text is unchanged, except where a rule masks or drops a field in it.
func (r *reader) opaque(f *field, i, row int) (end int) {
	end, depth, ok := r.walk.Value(r.b, i)
	if !ok {
		return refuseSyntax
	}
	if f.owner.level+depth > maxLevels {
		return refuseDepth
	}
	value := r.b[i:end]
	if code := strict(value); code != 0 {
		return code
	}
	if r.tables.rules.any() {
		value = r.opaqueRuled(f, i, end)
	}
	c := f.column
	r.tables.widen(c, schemas.JSON)
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
