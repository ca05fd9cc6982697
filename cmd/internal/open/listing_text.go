package open

import (
	"errors"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/cmd/internal/config"
)

// yamlRows parses a list of mappings. Values keep the text that is in the file: 007 does not become 7, and a long key
// of digits is not rounded.
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

// yamlText is a value as written.
type yamlText struct {
	text   string
	single bool // it is a scalar, not a list or mapping
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

// quoted matches the parts of a database error that may come from a row: quoted text and numbers.
var quoted = regexp.MustCompile(`'[^']*'|"[^"]*"|[0-9]+`)

// withoutValues truncates the error of a query before the first part that may be a value of a row. Errors about a
// conversion contain such values. Parts that occur in the query itself are kept. // Invariant 5
func withoutValues(text, query string) string {
	for _, m := range quoted.FindAllStringIndex(text, -1) {
		if word := strings.Trim(text[m[0]:m[1]], `'"`); word == "" || !strings.Contains(query, word) {
			return text[:m[0]] + "[redacted]"
		}
	}
	return text
}
