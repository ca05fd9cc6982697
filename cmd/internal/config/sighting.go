package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// sighting records how the reader reads a value. The JSON Schema is derived from sightings, so the reader is
// the only definition of the file's format.
type sighting struct {
	mapping bool
	keys    []string // keys of a mapping with known keys; nil if the user chooses the keys
	needs   []string
	beside  []string // keys with a fixed meaning in a mapping whose other keys the user chooses
	list    bool
	single  bool
	words   []string
	number  bool
	low     int
	high    int
	null    bool // ~ is allowed
	refused bool // the value has the wrong kind
}

func (r *reader) observe(n ast.Node, s sighting) {
	if r.observer != nil {
		r.observer(r.resolve(n), s)
	}
}

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

// Steps of a place that are not keys: an entry of a list, and a value under a key that the user chooses.
const (
	anyEntry = "[]"
	anyKey   = "*"
)

type place []string

// String returns the form sources.*.v2.
func (p place) String() string { return strings.Join(p, ".") }

// file returns the smallest file with this value at p.
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

// look reads a file with a value of one kind at a place, and returns how the reader read that value.
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
	r.observer = func(n ast.Node, s sighting) {
		if n == target {
			all.add(s)
		}
	}
	r.root(&Config{presets: c.presets}, root)
	return all, nil
}
