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
func settings(v value) []Setting {
	es, _ := v.entries()
	var all []Setting
	for _, e := range es {
		all = append(all, Setting{e.key, e.line()})
	}
	return all
}

// line returns a value as YAML on one line.
func (v value) line() string {
	switch n := v.resolve().(type) {
	case ast.MapNode:
		es, _ := v.entries()
		parts := make([]string, len(es))
		for i, e := range es {
			parts[i] = Quote(e.key) + ": " + e.line()
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case *ast.SequenceNode:
		items := v.list()
		parts := make([]string, len(items))
		for i, item := range items {
			parts[i] = item.line()
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case *ast.StringNode:
		return Quote(n.Value)
	case *ast.LiteralNode:
		return Quote(n.Value.Value)
	case nil:
		return "null"
	default:
		return n.GetToken().Value
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
