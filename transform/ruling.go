package transform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/transform/jsonscan"
)

type fieldRule struct {
	schemas.Verdict
	text   *masker
	round  *rounding
	needed bool // the field is dropped, but a filter reads it
}

// fieldRules caches the rule of each field, so that a field without a rule costs nothing after its first value.
type fieldRules struct {
	stream schemas.Stream
	known  map[string]*fieldRule // by JSON pointer from the record, without array positions
	below  *place                // place of the record itself: see redact.go
	places int
	drops  bool // a rule may leave out fields
	err    error
}

func newFieldRules(s schemas.Stream) *fieldRules {
	r := &fieldRules{stream: s, known: map[string]*fieldRule{}}
	r.below = &place{}
	r.drops = s.Rules.Select != nil || slices.ContainsFunc(s.Rules.Masks, func(m schemas.MaskRule) bool { return m.Mask.Action == schemas.MaskDrop })
	for _, name := range s.Key {
		if v := s.Verdict(schemas.PathPointer(name)); v.Drop || !v.Mask.Keyable() {
			r.fail("key column %s: only the masks hmac and hash keep a key unique", name)
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

func (r *fieldRules) any() bool {
	return len(r.stream.Rules.Masks) > 0 || r.stream.Rules.Select != nil || len(r.stream.Rules.Rename) > 0
}

// The method at() returns the rule for a field, or nil if the field is loaded unchanged.
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

// peek is like at(), but does not cache the rule. It is for fields whose names may be data.
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

// carryOut returns the rule for a verdict, or nil if the verdict changes nothing.
func (r *fieldRules) carryOut(v schemas.Verdict, pointer string) *fieldRule {
	if !v.Touched() {
		return nil
	}
	k := &fieldRule{Verdict: v, needed: v.Drop && r.filters(schemas.Column(pointer))}
	k.ready(r)
	return k
}

// The method ready() prepares the mask of the rule. If the mask is invalid, it stores the error in r.err and redacts
// the field.
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

func (r *fieldRules) filters(path string) bool {
	return slices.ContainsFunc(r.stream.Rules.Filter, func(c schemas.Condition) bool { return c.Column == path || strings.HasPrefix(c.Column, path+"__") })
}

// The method renamed() returns the name that the stream's rules give to the column of a field, or "" if they do not
// rename it.
func (r *fieldRules) renamed(pointer string) string {
	if k := r.at(pointer); k != nil {
		return k.Rename
	}
	return ""
}

// hides reports whether the values of a field may be visible only in masked form, or not at all.
func (k *fieldRule) hides() bool { return k != nil && (k.Drop || k.Masked()) }

// The method verbatim() reports whether the values of the field are stored as the source spelled them, because the mask
// produces text. So the result of the mask does not depend on the type to which other values have widened the column.
// Invariant 8
func (k *fieldRule) verbatim() bool { return k != nil && k.text != nil }

// rule prepares a column for its rule. A dropped column has no type, so no batch contains it. A verbatim column becomes
// text with its first value. The column in the destination may have a narrower type, because the column may be older
// than the rule. Only lists of texts and JSON keep their type.
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

// leavesOut reports whether the rule drops the whole value at b[i].
func (k *fieldRule) leavesOut(b []byte, i int) bool {
	return k != nil && k.Drop && !k.needed && !(k.Partial && jsonscan.BeginsObject(b, i))
}

func (f *field) pointerOf() string { return f.owner.table.path + f.column.source }

// maskText appends the masked text. It returns false if the mask gives no text.
func (k *fieldRule) maskText(dst, text []byte) (out []byte, ok bool) {
	switch {
	case k.text != nil:
		return k.text.append(dst, text), true
	case k.round != nil:
		return k.round.appendText(dst, text)
	}
	return dst, false
}

const masked = "[masked]"
