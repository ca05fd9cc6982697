package config

import (
	"encoding/json"
	"strings"

	"github.com/goccy/go-yaml/ast"
)

// Setting is one key of a stream's entry in the file.
type Setting struct {
	Key   string
	Value string // as YAML on one line; ${…} is not expanded
}

// settings returns the keys of a stream's entry. The entry must have been read without errors.
func (r *reader) settings(n ast.Node) []Setting {
	es, _ := r.entries(n, "")
	var all []Setting
	for _, e := range es {
		all = append(all, Setting{e.key, r.line(e.value)})
	}
	return all
}

// line returns a value as YAML on one line.
func (r *reader) line(n ast.Node) string {
	switch v := r.resolve(n).(type) {
	case ast.MapNode:
		es, _ := r.entries(n, "")
		parts := make([]string, len(es))
		for i, e := range es {
			parts[i] = Quote(e.key) + ": " + r.line(e.value)
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case *ast.SequenceNode:
		parts := make([]string, len(v.Values))
		for i, e := range v.Values {
			parts[i] = r.line(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case *ast.StringNode:
		return Quote(v.Value)
	case *ast.LiteralNode:
		return Quote(v.Value.Value)
	case nil:
		return "null"
	default:
		return v.GetToken().Value
	}
}

// Quote returns a text as a YAML value. It adds quotes if YAML could read the text as something else.
func Quote(text string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
	switch strings.ToLower(text) {
	case "", "y", "n", "yes", "no", "on", "off", "true", "false", "null":
	default:
		if strings.Trim(text, plain+"0123456789/.") == "" && strings.Contains(plain+"/", text[:1]) {
			return text
		}
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string always encodes, and JSON strings are valid YAML
	return strings.TrimSpace(b.String())
}
