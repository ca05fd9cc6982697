package transform

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform/jsonscan"
)

// place is a position in the records, given by a JSON pointer without array positions. It has the rules for the field
// at this position, and caches the places of its members.
type place struct {
	pointer string
	verdict schemas.Verdict
	rule    *fieldRule
	members map[string]*place
}

// maxPlaces limits the number of cached places. The names of members may be values, such as the id in {"u-17": {…}}. So
// there may be any number of different names.
const maxPlaces = 4 << 10

func (r *fieldRules) place(pointer string) *place {
	return &place{pointer: pointer, verdict: r.stream.Verdict(pointer), rule: r.at(pointer)}
}

// onlyDigits reports whether a name has only digits. Such names are the keys of a map.
func onlyDigits(name []byte) bool {
	for _, c := range name {
		if !jsonscan.IsDigit(c) {
			return false
		}
	}
	return true
}

// member returns the place of a member of p. All numeric names share one place, because they are the keys of a map.
func (r *fieldRules) member(p *place, name []byte) *place {
	if onlyDigits(name) {
		name = name[:0]
	}
	if c, ok := p.members[string(name)]; ok {
		return c
	}
	c := &place{pointer: p.pointer, verdict: p.verdict}
	if len(name) > 0 || p.pointer == "" {
		c.pointer = longestPointer(p.pointer, name)
		c.verdict = r.stream.Below(p.verdict, c.pointer)
	}
	c.rule = r.carryOut(c.verdict, c.pointer)
	if r.places >= maxPlaces || len(name) > maxNameBytes {
		return c
	}
	r.places++
	if p.members == nil {
		p.members = map[string]*place{}
	}
	p.members[string(name)] = c
	return c
}

// longestPointer returns the pointer of a member. If it would be too long, only its last part is returned, so that
// the time stays linear in the size of the input. No rule applies to such a long pointer.
func longestPointer(parent string, name []byte) string {
	if len(name) == 0 {
		return parent
	}
	p := parent + "/" + escapePointer(string(name[:min(len(name), maxNameBytes)]))
	if cut := len(p) - 2*maxNameBytes; cut > 0 {
		p = p[cut+max(0, strings.IndexByte(p[cut:], '/')):]
	}
	return p
}

// redactor rewrites JSON text according to the rules for the fields in it. The text must be valid JSON.
type redactor struct {
	rules   *fieldRules
	reject  bool // the text is for a reject, so masked values are hidden completely
	touched bool
	walk    jsonscan.Walker
	name    []byte
	text    []byte
}

// value appends the value at i, which belongs to place p. It also returns the position after the value.
func (x *redactor) value(dst, b []byte, i int, p *place, depth int) (out []byte, end int) {
	switch {
	case depth > maxLevels:
		x.touched = true
		end, _, _ = x.walk.Value(b, i)
		return append(dst, `"`+masked+`"`...), end
	case b[i] == '{':
		return x.object(dst, b, i, p, depth)
	case b[i] == '[':
		return x.array(dst, b, i, p, depth)
	}
	end, _ = x.walk.Scalar(b, i)
	if !p.rule.hides() || b[i] == 'n' {
		return append(dst, b[i:end]...), end
	}
	x.touched = true
	return x.scalar(dst, b, i, end, p.rule), end
}

func (x *redactor) scalar(dst, b []byte, i, end int, k *fieldRule) []byte {
	if x.reject || k.Drop {
		return append(dst, `"`+masked+`"`...)
	}
	text := b[i:end]
	if b[i] == '"' {
		text = x.plain(b, i, end)
	}
	out, ok := k.maskText(x.text[:0], text)
	if !ok {
		return append(dst, "null"...)
	}
	x.text = out
	if k.round != nil && b[i] != '"' {
		return append(dst, out...)
	}
	dst, _ = jsontext.AppendQuote(dst, out)
	return dst
}

func (x *redactor) array(dst, b []byte, i int, p *place, depth int) (out []byte, end int) {
	dst = append(dst, '[')
	for i = jsonscan.Space(b, i+1); b[i] != ']'; {
		if b[i] == ',' {
			dst = append(dst, ',')
			i = jsonscan.Space(b, i+1)
		}
		dst, i = x.value(dst, b, i, p, depth+1)
		i = jsonscan.Space(b, i)
	}
	return append(dst, ']'), i + 1
}

func (x *redactor) object(dst, b []byte, i int, p *place, depth int) (out []byte, end int) {
	dst = append(dst, '{')
	first := true
	for i = jsonscan.Space(b, i+1); b[i] != '}'; {
		if b[i] == ',' {
			i = jsonscan.Space(b, i+1)
		}
		begin := i
		i, _ = jsonscan.LooseText(b, i+1)
		named := b[begin:i]
		c := x.rules.member(p, x.plain(b, begin, i))
		i = jsonscan.Space(b, jsonscan.Space(b, i)+1)
		if k := c.rule; k != nil && k.Drop && !k.Partial {
			x.touched = true
			i, _, _ = x.walk.Value(b, i)
		} else {
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(append(dst, named...), ':')
			dst, i = x.value(dst, b, i, c, depth+1)
		}
		i = jsonscan.Space(b, i)
	}
	return append(dst, '}'), i + 1
}

func (x *redactor) plain(b []byte, begin, end int) []byte {
	if bytes.IndexByte(b[begin:end], '\\') < 0 {
		return b[begin+1 : end-1]
	}
	x.name = jsonscan.Unescape(x.name[:0], b, begin+1)
	return x.name
}

// The method redacted() returns the record in the form that a reject may show. The second result is true if a value was
// hidden.
func (r *fieldRules) redacted(raw []byte, begin, end int) (record []byte, lossy bool) {
	if !r.any() {
		return raw[begin:end], false
	}
	x := redactor{rules: r, reject: true}
	out, _ := x.value(nil, raw, begin, r.below, 0)
	if !x.touched {
		return raw[begin:end], false
	}
	return out, true
}

// The method shown() returns the record in the form that a reject may show, and its hash. If that form is not the
// original, the third result says so.
func (r *fieldRules) shown(page []byte, begin, end int) (raw, hash, note string) {
	record, lossy := r.redacted(page, begin, end)
	raw = printable(record, maxRawRecord)
	hash = HashID(raw)
	switch limit := mostShown(len(record), maxRawRecord); {
	case lossy:
		note = notMasked
	case len(record) > maxRawRecord:
		note = notWhole
	case len(raw) > limit:
		raw, note = printable(record, limit), notWhole
	case raw != string(record):
		note = notText
	}
	return raw, hash, note
}

// shownValue returns the value at a pointer in a record, in the form that a reject may show.
func (r *fieldRules) shownValue(record []byte, pointer string) string {
	v := memberIn(record, pointer)
	padded := jsonscan.Pad(slices.Clone(v))
	x := redactor{rules: r, reject: true}
	at := r.below
	for _, name := range namesIn(pointer) {
		at = r.member(at, []byte(name))
	}
	if len(v) == 0 {
		return ""
	}
	out, _ := x.value(nil, padded, 0, at, 0)
	if !x.touched {
		out = v
	}
	return printable(out, maxRaw)
}
