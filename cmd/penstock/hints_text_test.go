//go:build cgo && duckdb_arrow

package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// known reports whether a text has words.
func known(text string) bool { return strings.ContainsFunc(text, unicode.IsLetter) }

// verb matches the verbs of a format.
var verb = regexp.MustCompile(`%(\[\d+\])?[-+#0]*[0-9.]*[a-zA-Z%]`)

// text returns the text of an expression, with … for what is known only when the program runs.
func (h *hintFinder) text(e ast.Expr) string {
	const unknown = "…"
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			return formatted(unquoted(e), nil)
		}
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return strings.ReplaceAll(h.text(e.X)+h.text(e.Y), unknown+unknown, unknown)
		}
	case *ast.Ident:
		if text, ok := h.constants[h.pkg+"."+e.Name]; ok {
			return text
		}
		if values := h.local[e.Name]; len(values) == 1 {
			if call, ok := values[0].(*ast.CallExpr); ok && lastName(call.Fun) == "Sprintf" {
				return h.text(call)
			}
		}
	case *ast.SelectorExpr:
		if of, ok := e.X.(*ast.Ident); ok && h.constants[of.Name+"."+e.Sel.Name] != "" {
			return h.constants[of.Name+"."+e.Sel.Name]
		}
	case *ast.UnaryExpr:
		return h.text(e.X)
	case *ast.KeyValueExpr:
		return h.text(e.Value)
	case *ast.CompositeLit: // an error that wraps the message
		if len(e.Elts) > 0 {
			return h.text(e.Elts[0])
		}
	case *ast.CallExpr:
		name := lastName(e.Fun)
		if len(e.Args) == 0 || !slices.Contains([]string{"Sprintf", "Errorf", "New"}, name) {
			break
		}
		if format, ok := e.Args[0].(*ast.BasicLit); ok {
			return formatted(unquoted(format), e.Args[1:], h.text)
		}
	}
	return unknown
}

// formatted replaces the verbs of a format by the texts of the arguments.
func formatted(format string, args []ast.Expr, text ...func(ast.Expr) string) string {
	i := 0
	return strings.ReplaceAll(verb.ReplaceAllStringFunc(format, func(v string) string {
		if v == "%%" {
			return "%"
		}
		i++
		value := "…"
		if len(text) > 0 && i <= len(args) && !strings.Contains(v, "[") {
			value = text[0](args[i-1])
		}
		if v == "%q" {
			return `"` + value + `"`
		}
		return value
	}), "……", "…")
}

// lastName returns the last identifier of a name such as failure.Usage.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}
