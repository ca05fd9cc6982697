package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// sighting is what was observed while the reader read a value, for example that it wants a list. The JSON Schema
// is made from sightings, so that the file's format is defined only once, by the reader.
type sighting struct {
	mapping   bool
	keys      []string // the keys that a mapping may have; nil: the user chooses the keys, such as names of sources
	needs     []string // keys that must be present
	fixedKeys []string // keys with a fixed meaning in a mapping whose other keys the user chooses: `from` beside the names of sources
	list      bool
	single    bool     // a text, number or boolean
	words     []string // the only words that are allowed
	number    bool     // a whole number from low to high
	low       int
	high      int
	null      bool // ~ is allowed
	refused   bool // the value has the wrong kind
}

func (s *sighting) add(o sighting) {
	s.mapping, s.list, s.single = s.mapping || o.mapping, s.list || o.list, s.single || o.single
	s.null, s.refused = s.null || o.null, s.refused || o.refused
	if o.keys != nil {
		s.keys = o.keys
	}
	s.needs, s.fixedKeys = append(s.needs, o.needs...), append(s.fixedKeys, o.fixedKeys...)
	if o.words != nil {
		s.words = o.words
	}
	if o.number {
		s.number, s.low, s.high = true, o.low, o.high
	}
}

// Steps of a place that are not fixed keys: an entry of a list, and a value under a key that the user chooses.
const (
	anyEntry = "[]"
	anyKey   = "*"
)

// place is the path from the root of a file to a value.
type place []string

// String returns the path with dots, such as sources.*.v2.
func (p place) String() string { return strings.Join(p, ".") }

// file returns the smallest file with the value at p. For sources.*.v2 that is {"sources": {probe: {"v2": VALUE}}}.
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

// node returns the value at p of a file that the method file has made.
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

// look reads a file that has only the given value, at p. It returns how the reader read the value.
func look(c *Config, in Input, p place, value string) (sighting, error) {
	var all sighting
	r := &reader{Input: in}
	root := r.document([]byte(p.file(value)), wholeFile)
	if !root.given() {
		return all, r.faults.sorted()
	}
	target, err := p.node(root.node)
	if err != nil {
		return all, err
	}
	r.observer = func(n ast.Node, s sighting) {
		if n == target {
			all.add(s)
		}
	}
	(&Config{presets: c.presets}).read(root)
	return all, nil
}
