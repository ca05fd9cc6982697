package transform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// fieldRule is what becomes of one field: the verdict of the stream's rules, made
// ready to be carried out.
type fieldRule struct {
	schemas.Verdict
	text   *masker   // of a mask that makes text
	round  *rounding // of one that rounds
	needed bool      // dropped, but the filter looks at it
}

// fieldRules are the stream's rules as they are met. A field has its ruling from
// when it is learned, so that reading costs nothing where there is none.
type fieldRules struct {
	stream schemas.Stream
	known  map[string]*fieldRule // by pointer from the record, arrays leaving no mark
	below  *place                // of the record; see redact
	places int
	drops  bool  // some field may be left out
	err    error // the first one met
}

func newRulings(s schemas.Stream) *fieldRules {
	r := &fieldRules{stream: s, known: map[string]*fieldRule{}}
	r.below = &place{}
	r.drops = s.Rules.Select != nil || slices.ContainsFunc(s.Rules.Masks, func(m schemas.MaskRule) bool { return m.Mask.Action == schemas.MaskDrop })
	for _, name := range s.Key {
		if v := s.Verdict(schemas.PathPointer(name)); v.Drop || !v.Mask.Keyable() {
			r.fail("key column %s: only hmac and hash leave a key what it is", name)
		}
	}
	if slices.ContainsFunc(s.Rules.Masks, func(m schemas.MaskRule) bool { return m.Mask.Action == schemas.MaskHMAC }) && s.Rules.MaskKey == "" {
		r.err = errNoKey
	}
	return r
}

func (r *fieldRules) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// any reports whether some field may have a ruling.
func (r *fieldRules) any() bool {
	return len(r.stream.Rules.Masks) > 0 || r.stream.Rules.Select != nil || len(r.stream.Rules.Rename) > 0
}

// at is the ruling of the field at a pointer; nil where it is loaded as it is.
func (r *fieldRules) at(pointer string) *fieldRule {
	if !r.any() {
		return nil
	}
	k, ok := r.known[pointer]
	if !ok {
		k = r.make(pointer)
		r.known[pointer] = k
	}
	return k
}

// peek is at for a field that is not learned: its name may be data.
func (r *fieldRules) peek(pointer string) *fieldRule {
	if !r.any() {
		return nil
	}
	if k, ok := r.known[pointer]; ok {
		return k
	}
	return r.make(pointer)
}

func (r *fieldRules) make(pointer string) *fieldRule {
	return r.carryOut(r.stream.Verdict(pointer), pointer)
}

// carryOut makes a verdict on the field at a pointer ready; nil where there is nothing
// to do.
func (r *fieldRules) carryOut(v schemas.Verdict, pointer string) *fieldRule {
	if !v.Touched() {
		return nil
	}
	k := &fieldRule{Verdict: v, needed: v.Drop && r.filters(schemas.Column(pointer))}
	k.ready(r)
	return k
}

// ready makes the mask. Where that fails nothing is let through.
func (k *fieldRule) ready(r *fieldRules) {
	if !k.Masked() {
		return
	}
	if k.Mask.Action == schemas.MaskRound {
		k.round = newRounding(k.Mask.To)
		return
	}
	var err error
	if k.text, err = newMasker(k.Mask, r.stream.Rules.MaskKey); k.text == nil {
		r.fail("mask %s: %v", k.Mask.Action, err)
		k.text, _ = newMasker(schemas.Mask{Action: schemas.MaskRedact}, "")
	}
}

// filters reports whether the filter looks at a column, or at one within.
func (r *fieldRules) filters(path string) bool {
	return slices.ContainsFunc(r.stream.Rules.Filter, func(c schemas.Condition) bool { return c.Column == path || strings.HasPrefix(c.Column, path+"__") })
}

// hides reports whether the values of a field must not be seen anywhere but
// where a mask puts them.
func (k *fieldRule) hides() bool { return k != nil && (k.Drop || k.Masked()) }

// verbatim reports whether the field's values are kept in the source's own
// spelling, for a mask that makes text of them: what it makes must not depend
// on the type that the other values have given the column. // Invariant 8
func (k *fieldRule) verbatim() bool { return k != nil && k.text != nil }

// rule makes a column ready for its ruling. What is dropped has no type, so
// that no batch has it. What is kept verbatim is text: a type of the table that
// is narrower is from before there was the rule.
func (c *column) rule(k *fieldRule) {
	switch {
	case k.Drop && !k.needed:
		c.typ, c.declared = schemas.Null, nil
	case k.verbatim():
		c.verbatim, c.declared = true, nil
		if l, ok := c.typ.(*arrow.ListType); ok && l.Elem().ID() == arrow.STRING || kindOf(c.typ) == kindJSON {
			return
		}
		c.typ = schemas.Null
	}
}

// ruled reads the value at i of a field with a ruling. The record's hash is not
// to depend on what is not loaded, nor on what a mask hides: such a value is cut
// out of it, and what the mask makes is added by the [Shaper].
func (m *Mapper) ruled(f *field, begin, i, row int) (end int) {
	k := f.ruling
	switch {
	case m.leavesOut(k, i):
		end, _, ok := m.walk.value(m.raw, i)
		if !ok {
			return refuseSyntax
		}
		m.hashCut(begin, end, nil)
		return end
	case !k.hides():
		return m.value(f, i, row)
	}
	m.opaqued = nil
	if end = m.value(f, i, row); end < 0 {
		return end
	}
	if (m.opaqued == f || !m.contains(i)) && (k.Drop || !m.nothingIn(i)) {
		m.hashCut(begin, end, nil)
	}
	return end
}

// leavesOut reports whether a ruling drops the value at i, all of it.
func (m *Mapper) leavesOut(k *fieldRule, i int) bool {
	return k != nil && k.Drop && !k.needed && !(k.Outer && m.contains(i))
}

// nothingIn reports whether the value at i is null, or a list of such at most:
// there is nothing to hide, and whether it is stored depends on the column.
func (m *Mapper) nothingIn(i int) bool {
	b := m.raw
	switch b[i] {
	case 'n':
		return true
	case '{':
		return b[space(b, i+1)] == '}'
	case '[':
		for i = space(b, i+1); b[i] == 'n' || b[i] == ','; i = space(b, i) {
			if b[i] == ',' {
				i++
			} else {
				i += len("null")
			}
		}
		return b[i] == ']'
	}
	return false
}

// contains reports whether the value at i is an object or a list of objects,
// whose members have rulings of their own.
func (m *Mapper) contains(i int) bool {
	if m.raw[i] == '[' {
		i = space(m.raw, i+1)
	}
	return m.raw[i] == '{'
}

// pointerOf is the pointer of f from the record.
func (f *field) pointerOf() string { return f.owner.table.path + f.column.source }

// maskText is what a mask makes of a text; of one that makes no text, nothing.
func (k *fieldRule) maskText(dst, text []byte) (out []byte, ok bool) {
	switch {
	case k.text != nil:
		return k.text.append(dst, text), true
	case k.round != nil:
		return k.round.appendText(dst, text)
	}
	return dst, false
}

// masked stands in rejects for a value that must not be seen.
const masked = "[masked]"
