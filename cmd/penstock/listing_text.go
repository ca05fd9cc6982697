package main

import (
	"errors"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/cmd/internal/config"
)

// yamlRows reads a list of mappings, whose values are taken to the letter: 007
// is no number, and a key of digits stays whole.
func yamlRows(text []byte) ([]config.Row, error) {
	var all []map[string]yamlText
	if err := yaml.Unmarshal(text, &all); err != nil {
		return nil, errors.New("want a YAML list of mappings")
	}
	rows := make([]config.Row, len(all))
	for i, fields := range all {
		rows[i] = config.Row{Fields: map[string]string{}}
		for name, v := range fields {
			if v.single {
				rows[i].Fields[name] = v.text
			}
		}
	}
	return rows, nil
}

// yamlText is a value as it is written.
type yamlText struct {
	text   string
	single bool // it is a value, and no list or mapping
}

var _ yaml.NodeUnmarshaler = (*yamlText)(nil)

// UnmarshalYAML implements [yaml.NodeUnmarshaler].
func (t *yamlText) UnmarshalYAML(n ast.Node) error {
	switch n := n.(type) {
	case *ast.StringNode:
		t.text, t.single = n.Value, true
	case *ast.LiteralNode:
		t.text, t.single = n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		t.text, t.single = n.GetToken().Value, true
	}
	return nil
}

// quoted is what an error of a database may have taken from a row.
var quoted = regexp.MustCompile(`'[^']*'|"[^"]*"|[0-9]+`)

// withoutValues is an error of a query up to where it may show a value of a row,
// as what cannot be converted. What stands in the query itself is none.
// Invariant 5
func withoutValues(text, query string) string {
	for _, m := range quoted.FindAllStringIndex(text, -1) {
		if word := strings.Trim(text[m[0]:m[1]], `'"`); word == "" || !strings.Contains(query, word) {
			return text[:m[0]] + "[redacted]"
		}
	}
	return text
}
