package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// sighting is one thing that the reader does to a value: the reader's own code
// is what says which files it takes, and there is no second description of it.
type sighting struct {
	mapping bool
	keys    []string // of a mapping that knows its keys; nil for one with keys of the user's choice
	needs   []string // keys that a mapping cannot do without
	beside  []string // keys with a meaning of their own beside those of the user's choice
	list    bool
	single  bool
	words   []string // of which a single value is one
	number  bool     // a single value is a whole number
	low     int      // of number
	high    int      // of number
	null    bool     // ~ is fine
	refused bool     // the value is of the wrong kind
}

func (r *reader) saw(n ast.Node, s sighting) {
	if r.seen != nil {
		r.seen(r.resolve(n), s)
	}
}

// add joins what is seen of one value at several places.
func (s *sighting) add(o sighting) {
	s.mapping, s.list, s.single = s.mapping || o.mapping, s.list || o.list, s.single || o.single
	s.null, s.refused = s.null || o.null, s.refused || o.refused
	if o.keys != nil {
		s.keys = o.keys
	}
	s.needs, s.beside = append(s.needs, o.needs...), append(s.beside, o.beside...)
	if o.words != nil {
		s.words = o.words
	}
	if o.number {
		s.number, s.low, s.high = true, o.low, o.high
	}
}

// The steps of a place that are no key: of a list's entry, and of a mapping's
// value whose keys the user chooses.
const (
	anyEntry = "[]"
	anyKey   = "*"
)

// place is where in a file a value stands.
type place []string

// String reads sources.*.v2.
func (p place) String() string { return strings.Join(p, ".") }

// file is the smallest one that has this value there.
func (p place) file(value string) string {
	for _, step := range slices.Backward(p) {
		switch step {
		case anyEntry:
			value = "[" + value + "]"
		case anyKey:
			value = "{probe: " + value + "}"
		default:
			value = "{" + strconv.Quote(step) + ": " + value + "}"
		}
	}
	return value
}

// node is the value itself in the parsed file.
func (p place) node(root ast.Node) (ast.Node, error) {
	for _, step := range p {
		switch n := root.(type) {
		case *ast.SequenceNode:
			root = n.Values[0]
		case ast.MapNode:
			it := n.MapRange()
			it.Next()
			root = it.Value()
		default:
			return nil, fmt.Errorf("describe configuration: no %q in %T", step, root)
		}
	}
	return root, nil
}

// look reads a file with a value of one kind at a place, and says what the
// reader did to that value.
func look(c *Config, in Input, p place, value string) (sighting, error) {
	var all sighting
	r := &reader{Input: in}
	root := r.document([]byte(p.file(value)))
	if root == nil {
		return all, r.faults.sorted()
	}
	target, err := p.node(root)
	if err != nil {
		return all, err
	}
	r.seen = func(n ast.Node, s sighting) {
		if n == target {
			all.add(s)
		}
	}
	r.root(&Config{presets: c.presets}, root)
	return all, nil
}
