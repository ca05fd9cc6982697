package config

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/schemas"
)

// SchemaURL is the address of the JSON Schema of configurations.
const SchemaURL = "https://raw.githubusercontent.com/penstock-data/penstock/main/cmd/penstock/pipelines.schema.json"

// Describe returns the JSON Schema of configurations, for editors. It finds the keys and the kinds of their values by
// experiment: it reads small test files as configurations, and observes what the parser expects at each place. The
// descriptions of the keys are in keys.yaml.
func Describe() ([]byte, error) {
	d, err := newDescriber()
	if err != nil {
		return nil, fmt.Errorf("describe configuration: %w", err)
	}
	root, err := d.describe(nil)
	if err != nil {
		return nil, fmt.Errorf("describe configuration: %w", err)
	}
	root.Dialect, root.ID, root.Title = "https://json-schema.org/draft/2020-12/schema", SchemaURL, "pipelines.yaml of penstock"
	text, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("describe configuration: %w", err)
	}
	return append(text, '\n'), nil
}

type jsonSchema struct {
	Dialect     string                 `json:"$schema,omitempty"`
	ID          string                 `json:"$id,omitempty"`
	Title       string                 `json:"title,omitempty"`
	Description string                 `json:"description,omitempty"`
	AnyOf       []*jsonSchema          `json:"anyOf,omitempty"`
	Type        any                    `json:"type,omitempty"`
	Properties  map[string]*jsonSchema `json:"properties,omitempty"`
	Required    []string               `json:"required,omitempty"`
	Additional  any                    `json:"additionalProperties,omitempty"` // a schema, or false
	Items       *jsonSchema            `json:"items,omitempty"`
	Enum        []any                  `json:"enum,omitempty"`
	Minimum     *int                   `json:"minimum,omitempty"`
	Maximum     *int                   `json:"maximum,omitempty"`
	Pattern     string                 `json:"pattern,omitempty"`
}

type describer struct {
	config *Config
	words  map[string]string // the entries of keys.yaml: from the last keys of a path to the description
	used   map[string]bool   // the entries of keys.yaml that have been used
	mute   []string          // paths of keys without a description
	above  [][]string        // the keys of the enclosing mappings
}

//go:embed keys.yaml
var keyWords []byte

func newDescriber() (*describer, error) {
	presets, err := schemas.LoadPresets()
	if err != nil {
		return nil, err
	}
	d := &describer{config: &Config{presets: presets}, used: map[string]bool{}}
	return d, yaml.Unmarshal(keyWords, &d.words)
}

// probes are the test values that are tried at each place: a mapping, a list, a text and null.
var probes = []string{"{}", "[]", "probe", "~"}

func (d *describer) describe(p place) (*jsonSchema, error) {
	out := &jsonSchema{}
	in := Input{
		File: "describe", Env: func(string) (string, bool) { return "", false },
		Read: func(string) (string, error) { return "", errors.New("none") },
	}
	for _, probe := range probes {
		s, err := look(d.config, in, p, probe)
		if err != nil {
			return nil, err
		}
		if s.refused {
			continue
		}
		kinds, err := d.kinds(p, s)
		if err != nil {
			return nil, err
		}
		out.AnyOf = append(out.AnyOf, kinds...)
	}
	if len(out.AnyOf) == 1 {
		out = out.AnyOf[0]
	}
	out.Description = d.wordsFor(p)
	if last := len(p) - 1; last >= 0 && out.Description == "" && p[last] != anyEntry && p[last] != anyKey {
		d.mute = append(d.mute, p.String())
	}
	return out, nil
}

// wordsFor returns the description of a path. It tries suffixes of p, the longest first. For a.b.c it tries "a.b.c",
// then "b.c", then "c".
func (d *describer) wordsFor(p place) string {
	for i := range p {
		end := p[i:].String()
		if words, ok := d.words[end]; ok {
			d.used[end] = true
			return words
		}
	}
	return ""
}

func (d *describer) kinds(p place, s sighting) ([]*jsonSchema, error) {
	switch {
	case s.mapping:
		m, err := d.mapping(p, s)
		return []*jsonSchema{m}, err
	case s.list:
		items, err := d.describe(append(slices.Clone(p), anyEntry))
		return []*jsonSchema{{Type: "array", Items: items}}, err
	case s.number:
		return []*jsonSchema{{Type: "integer", Minimum: &s.low, Maximum: &s.high}, {Type: "string", Pattern: `^[0-9_]+$|\{`}}, nil
	case s.words != nil:
		return []*jsonSchema{{Enum: enum(s.words)}, reference()}, nil
	case s.single:
		return []*jsonSchema{{Type: []string{"string", "number", "boolean"}}}, nil
	case s.null:
		return []*jsonSchema{{Type: "null"}}, nil
	}
	return nil, nil
}

func (d *describer) mapping(p place, s sighting) (*jsonSchema, error) {
	m := &jsonSchema{Type: "object", Additional: false}
	if s.keys == nil {
		of, err := d.describe(append(slices.Clone(p), anyKey))
		if err != nil {
			return nil, err
		}
		m.Additional = of
		return m, d.properties(m, p, s.fixedKeys)
	}
	if slices.ContainsFunc(d.above, func(keys []string) bool { return slices.Equal(keys, s.keys) }) {
		return &jsonSchema{Type: "object"}, nil // an enclosing mapping has the same keys, so without this case the schema would have no end
	}
	d.above = append(d.above, s.keys)
	defer func() { d.above = d.above[:len(d.above)-1] }()
	slices.Sort(s.needs)
	m.Required, m.Properties = slices.Compact(s.needs), map[string]*jsonSchema{}
	return m, d.properties(m, p, s.keys)
}

func (d *describer) properties(m *jsonSchema, p place, keys []string) error {
	for _, key := range keys {
		of, err := d.describe(append(slices.Clone(p), key))
		if err != nil {
			return err
		}
		if m.Properties == nil {
			m.Properties = map[string]*jsonSchema{}
		}
		m.Properties[key] = of
	}
	return nil
}

// reference allows any text that contains {, such as ${…} or {field}. Only the parser of configurations can check the
// value that replaces such a reference.
func reference() *jsonSchema { return &jsonSchema{Type: "string", Pattern: `\{`} }

// enum returns the words as values of a JSON Schema. For the words "true" and "false", it also adds the booleans,
// because YAML reads these words as booleans.
func enum(words []string) []any {
	var all []any
	for _, w := range words {
		all = append(all, w)
		if v, err := strconv.ParseBool(w); err == nil {
			all = append(all, v)
		}
	}
	return all
}

// Steps of a path that are not fixed keys: an item of a list, and the value of a key that the user chooses.
const (
	anyEntry = "[]"
	anyKey   = "*"
)

// place is the path from the root of a file to a value.
type place []string

// String returns the path with dots, such as sources.*.v2.
func (p place) String() string { return strings.Join(p, ".") }

// file returns the smallest file with the given value at p. For sources.*.v2, this file is
//
//	{"sources": {probe: {"v2": VALUE}}}
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

// node returns the value at p in a file that p.file has made.
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

// look parses a file that has only the given value, at the place p. It returns what the parser expects at this place.
func look(c *Config, in Input, p place, value string) (sighting, error) {
	var all sighting
	r := &reader{Input: in}
	root := root(r, []byte(p.file(value)), wholeFile)
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
