package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// wholeFile is the name of the whole configuration in messages. Messages about a key do not contain this name.
const wholeFile = "the configuration"

// value is a value of the file, with its position.
type value struct {
	r    *reader
	node ast.Node
	what string // what messages call it, such as "source main v2 auth"

	row    *listedRow // the row from which a source is being made; nil for sources of the file
	place  bool       // the value is in a destination or in the state
	source bool       // the value is in a source
	secret bool       // the value is a credential
	isURL  bool       // the value is a URL, so the fields of the row must be safe to insert into a URL
}

// root returns a whole file as one value, with the name that messages use for it.
func root(r *reader, data []byte, what string) value {
	return value{r: r, node: r.document(data), what: what}
}

// entry is a key of a mapping, and its value.
type entry struct {
	key string
	at  Pos // position of the key
	value
}

// fields has a function for each key that a mapping may have. The function reads the value of the key.
type fields map[string]func(value)

// set returns a function that reads a value and stores the result.
func set[T any](to *T, read func(value) T) func(value) {
	return func(v value) { *to = read(v) }
}

// keep returns a function that stores a value. The value can then be read later, when all keys are known.
func keep(to *value) func(value) { return func(v value) { *to = v } }

// text returns a function that stores a text.
func text(to *string) func(value) {
	return func(v value) {
		if s, ok := v.text(); ok {
			*to = s.value
		}
	}
}

// choice returns a function that stores one of the words.
func choice[T ~string](to *T, words ...T) func(value) {
	plain := make([]string, len(words))
	for i, w := range words {
		plain[i] = string(w)
	}
	return func(v value) { *to = T(v.choice(plain...)) }
}

// boolean returns a function that stores true or false.
func boolean(to *bool) func(value) {
	return func(v value) { *to = v.boolean() }
}

func (v value) given() bool { return v.node != nil }

// pos returns the position of the value in the file.
func (v value) pos() Pos { return posOf(v.node) }

// as returns the value with another name in messages.
func (v value) as(what string) value {
	v.what = what
	return v
}

func (v value) child(key string, n ast.Node) value {
	v.node, v.what = n, strings.TrimPrefix(v.what+" "+key, wholeFile+" ")
	return v
}

func (v value) fault(p Pos, format string, args ...any) { v.r.fault(p, format, args...) }

func (v value) observe(s sighting) {
	if v.r.observer != nil {
		v.r.observer(v.resolve(), s)
	}
}

func (v value) resolve() ast.Node { return v.r.resolve(v.node) }

func (v value) isMapping() bool {
	_, ok := v.resolve().(ast.MapNode)
	return ok
}

func (v value) isList() bool {
	_, ok := v.resolve().(*ast.SequenceNode)
	return ok
}

// wrong reports a value of the wrong kind. If the value cannot be resolved, resolve has already reported an error.
func (v value) wrong(wanted string) {
	if n := v.resolve(); n != nil {
		v.observe(sighting{refused: true})
		v.fault(v.pos(), "%s is %s; want %s", v.what, kindOf(n), wanted)
	}
}

func kindOf(n ast.Node) string {
	switch n.(type) {
	case ast.MapNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "empty"
	case *ast.BoolNode:
		return "a boolean"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	}
	return "text"
}

func (v value) entries() ([]entry, bool) {
	m, ok := v.resolve().(ast.MapNode)
	if !ok {
		v.wrong("a mapping")
		return nil, false
	}
	v.observe(sighting{mapping: true})
	var own, merged []entry
	seen := map[string]Pos{}
	for it := m.MapRange(); it.Next(); {
		if _, merge := it.Key().(*ast.MergeKeyNode); merge {
			merged = append(merged, v.merged(it.Value())...)
			continue
		}
		key, at := keyText(it.Key()), posOf(it.Key())
		if first, twice := seen[key]; twice {
			v.fault(at, "key %q occurs twice in %s, first in line %d", key, v.what, first.Line)
			continue
		}
		seen[key] = at
		own = append(own, entry{key, at, v.child(key, it.Value())})
	}
	for _, e := range merged {
		if _, twice := seen[e.key]; !twice {
			seen[e.key] = e.at
			own = append(own, e)
		}
	}
	return own, true
}

// merged returns the entries under the key <<, which has a mapping or a list of mappings.
func (v value) merged(n ast.Node) []entry {
	v.node = n
	parts := []value{v}
	if v.isList() {
		parts = v.list()
	}
	var all []entry
	for _, p := range parts {
		es, _ := p.entries()
		all = append(all, es...)
	}
	return all
}

func keyText(k ast.MapKeyNode) string {
	if s, ok := k.(*ast.StringNode); ok {
		return s.Value
	}
	return k.GetToken().Value
}

// mapping reads each key with its function, and reports required keys that are missing. It returns whether all keys are
// known. An unknown key may be a misspelled required key. So if there is an unknown key, missing keys are not reported,
// neither here nor by the caller.
func (v value) mapping(f fields, required ...string) bool {
	es, ok := v.entries()
	if !ok {
		return false
	}
	known := slices.Sorted(maps.Keys(f))
	v.observe(sighting{keys: known})
	for _, e := range es {
		read, is := f[e.key]
		if !is {
			v.fault(e.at, "unknown key %q in %s%s", e.key, v.what, suggestion(e.key, known))
			ok = false
			continue
		}
		read(e.value)
	}
	if ok {
		v.require(required...)
	}
	return ok
}

func (v value) require(keys ...string) {
	if len(keys) == 0 {
		return
	}
	es, _ := v.entries()
	v.observe(sighting{needs: keys})
	for _, k := range keys {
		if !slices.ContainsFunc(es, func(e entry) bool { return e.key == k }) {
			v.fault(v.pos(), "%s has no %s", v.what, k)
		}
	}
}

// named reads a mapping whose keys are names that the user chooses.
func named[T any](v value, read func(entry) T) []T {
	es, ok := v.entries()
	if ok && len(es) == 0 {
		v.fault(v.pos(), "%s is empty", v.what)
	}
	var all []T
	for _, e := range es {
		if !IsName(e.key) {
			v.fault(e.at, "%s: %q is not a valid name; want letters, digits, - and _", v.what, e.key)
			continue
		}
		all = append(all, read(e))
	}
	return all
}

// list returns the items of a list. If the value is no list, it is returned as the only item.
func (v value) list() []value {
	switch n := v.resolve().(type) {
	case *ast.SequenceNode:
		v.observe(sighting{list: true})
		all := make([]value, len(n.Values))
		for i, item := range n.Values {
			all[i] = v
			all[i].node = item
		}
		return all
	case nil:
		return nil
	case ast.ScalarNode:
		if _, null := n.(*ast.NullNode); !null {
			return []value{v}
		}
	}
	v.wrong("a list")
	return nil
}

// Ref is a word of the file and its position.
type Ref struct {
	At   Pos
	Text string
}

func find[T any](all []T, is func(T) bool) (T, bool) {
	if i := slices.IndexFunc(all, is); i >= 0 {
		return all[i], true
	}
	var none T
	return none, false
}
