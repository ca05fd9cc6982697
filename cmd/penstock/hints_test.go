//go:build cgo && duckdb_arrow

package main

import (
	"cmp"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// hintInCode is a hint in the code: what penstock prints, and what the user can do.
type hintInCode struct{ file, message, cause, text string }

// hintFinder finds hints in source files.
type hintFinder struct {
	t         *testing.T
	positions *token.FileSet
	constants map[string]string // by package and name
	params    map[string]int    // the index of the parameter `hint`, by name of the function
	returned  map[string]string // by package and name, the text that a function about hints returns, if it has one return
	found     []hintInCode

	// The file and the function in which hints are being searched.
	file, pkg string
	causes    map[int]string        // comments that begin with "Cause:", by the line after them
	local     map[string][]ast.Expr // what is assigned to the variables of the function
}

// hintNamed matches the names of functions, variables and constants whose texts are hints.
var hintNamed = regexp.MustCompile(`(?i)^hint|hint$|remed(y|ies)$`)

// hintsInCode searches the program's source for hints. A hint without a message that is known in the code needs a
// comment above it that begins with "Cause:".
func hintsInCode(t *testing.T) []hintInCode {
	t.Helper()
	h := &hintFinder{t: t, positions: token.NewFileSet(), constants: map[string]string{}, params: map[string]int{}, returned: map[string]string{}}
	files := map[string]*ast.File{}
	eachGoFile(t, func(name, text string) {
		if strings.HasSuffix(name, "_test.go") || name == "cmd/internal/render/text.go" {
			return // text.go prints hints
		}
		f, err := parser.ParseFile(h.positions, name, text, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		files[name] = f
		h.declarations(f)
	})
	for _, f := range files {
		h.returns(f)
	}
	for name, f := range files {
		h.file, h.pkg, h.causes = name, f.Name.Name, map[int]string{}
		for _, c := range f.Comments {
			if cause, ok := strings.CutPrefix(c.Text(), "Cause: "); ok {
				h.causes[h.positions.Position(c.End()).Line+1] = strings.Join(strings.Fields(cause), " ")
			}
		}
		h.search(f)
	}
	require.False(t, t.Failed())
	require.Greater(t, len(h.found), 100)
	return h.found
}

// declarations collects constants that are texts, and functions that have a parameter `hint`.
func (h *hintFinder) declarations(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			i := 0
			for _, p := range d.Type.Params.List {
				for _, name := range p.Names {
					if name.Name == "hint" {
						h.params[d.Name.Name] = i
					}
					i++
				}
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if v, ok := s.(*ast.ValueSpec); ok && d.Tok == token.CONST && len(v.Values) == len(v.Names) {
					for i, name := range v.Names {
						if lit, ok := v.Values[i].(*ast.BasicLit); ok && lit.Kind == token.STRING {
							h.constants[f.Name.Name+"."+name.Name] = unquoted(lit)
						}
					}
				}
			}
		}
	}
}

// returns collects the texts that functions about hints return.
func (h *hintFinder) returns(f *ast.File) {
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil || fn.Recv != nil || !hintNamed.MatchString(fn.Name.Name) {
			continue
		}
		h.pkg, h.local = f.Name.Name, nil
		var all []string
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) == 1 {
				all = append(all, h.text(r.Results[0]))
			}
			return true
		})
		if len(all) == 1 {
			h.returned[h.pkg+"."+fn.Name.Name] = all[0]
		}
	}
}

func unquoted(lit *ast.BasicLit) string {
	return constant.StringVal(constant.MakeFromLiteral(lit.Value, lit.Kind, 0))
}

// search finds the hints of a file.
func (h *hintFinder) search(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Body != nil {
				h.searchFunction(d)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if v, ok := s.(*ast.ValueSpec); ok && len(v.Values) > 0 {
					h.searchVariable(v)
				}
			}
		}
	}
}

// searchVariable finds the hints in a variable of a package: a list of hints, or an error.
func (h *hintFinder) searchVariable(v *ast.ValueSpec) {
	value := v.Values[0]
	if address, ok := value.(*ast.UnaryExpr); ok {
		value = address.X
	}
	list, ok := value.(*ast.CompositeLit)
	switch {
	case ok && hintNamed.MatchString(v.Names[0].Name):
		for _, e := range list.Elts {
			h.add(e.(*ast.KeyValueExpr), "", e.(*ast.KeyValueExpr).Value)
		}
	case ok:
		h.searchLiteral(list, h.add)
	}
}

// searchFunction finds the hints in a function.
func (h *hintFinder) searchFunction(d *ast.FuncDecl) {
	h.local = assignments(d.Body)
	used := map[string]bool{}
	pass := func(at ast.Node, message string, hint ast.Expr) {
		if v, ok := hint.(*ast.Ident); ok && h.local[v.Name] != nil {
			used[v.Name] = true
			for _, value := range h.local[v.Name] {
				h.add(value, message, value)
			}
			return
		}
		h.add(at, message, hint)
	}
	returns := d.Type.Results != nil && lastName(d.Type.Results.List[0].Type) == "string" && hintNamed.MatchString(d.Name.Name)
	ast.Inspect(d.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			h.searchCall(n, pass)
		case *ast.CompositeLit:
			h.searchLiteral(n, pass)
		case *ast.ReturnStmt:
			if returns && len(n.Results) == 1 {
				h.add(n, "", n.Results[0])
				return false
			}
		case *ast.AssignStmt:
			for i, v := range n.Lhs {
				if s, ok := v.(*ast.SelectorExpr); ok && s.Sel.Name == "Hint" && len(n.Lhs) == len(n.Rhs) && n.Tok == token.ASSIGN {
					h.add(n, "", n.Rhs[i])
				}
			}
		case *ast.BinaryExpr, *ast.BasicLit:
			return h.searchText(n.(ast.Expr))
		}
		return true
	})
	for name, values := range h.local {
		for _, value := range values {
			if !used[name] && hintNamed.MatchString(name) {
				h.add(value, "", value)
			}
		}
	}
}

// assignments returns what a function assigns to its variables.
func assignments(body *ast.BlockStmt) map[string][]ast.Expr {
	all := map[string][]ast.Expr{}
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i := 0; i < len(n.Lhs) && len(n.Lhs) == len(n.Rhs) && n.Tok != token.ADD_ASSIGN; i++ {
				if v, ok := n.Lhs[i].(*ast.Ident); ok {
					all[v.Name] = append(all[v.Name], n.Rhs[i])
				}
			}
		case *ast.ValueSpec:
			for i := 0; i < len(n.Values) && len(n.Names) == len(n.Values); i++ {
				all[n.Names[i].Name] = append(all[n.Names[i].Name], n.Values[i])
			}
		}
		return true
	})
	return all
}

// messageAt is the index of the message among the arguments of functions with a parameter `hint`.
var messageAt = map[string]int{"Usage": 1, "Hinted": 0, "Failed": 2}

// searchCall finds a hint among the arguments of a call.
func (h *hintFinder) searchCall(call *ast.CallExpr, pass func(ast.Node, string, ast.Expr)) {
	for i, arg := range call.Args[:max(0, len(call.Args)-1)] { // attributes of a log record
		if lit, ok := arg.(*ast.BasicLit); ok && lit.Kind == token.STRING && (unquoted(lit) == "hint" || unquoted(lit) == "remedy") {
			pass(call, h.text(call.Args[0]), call.Args[i+1])
		}
	}
	at, ok := h.params[lastName(call.Fun)]
	if !ok || at >= len(call.Args) {
		return
	}
	message := ""
	if i, ok := messageAt[lastName(call.Fun)]; ok {
		message = h.text(call.Args[i])
	}
	pass(call, message, call.Args[at])
}

// searchLiteral finds the hint of an error or a finding.
func (h *hintFinder) searchLiteral(lit *ast.CompositeLit, pass func(ast.Node, string, ast.Expr)) {
	var hint ast.Expr
	message := ""
	for _, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch lastName(kv.Key) {
		case "Hint":
			hint = kv.Value
		case "Err", "Message", "Detail":
			message = h.text(kv.Value)
		}
	}
	if name := lastName(lit.Type); hint != nil && (name == "Error" || name == "Finding" || name == "") {
		pass(lit, message, hint)
	}
}

// searchText finds a hint in a text that has its own line for the hint. It returns false if there is one.
func (h *hintFinder) searchText(e ast.Expr) bool {
	text := h.text(e)
	message, hint, ok := strings.Cut("\n"+text, "\nhint: ")
	if ok && known(hint) {
		h.found = append(h.found, hintInCode{file: h.file, message: strings.TrimSpace(message), cause: h.causeOf(e), text: strings.TrimSpace(hint)})
		h.require(e, h.found[len(h.found)-1])
	}
	return !ok
}

func (h *hintFinder) require(at ast.Node, found hintInCode) {
	if found.message == "" && found.cause == "" {
		h.t.Errorf(`%s: no message is known for the hint %q: add a comment above it that begins with "Cause: "`, h.positions.Position(at.Pos()), found.text)
	}
}

// add adds a hint, unless it comes from elsewhere in the code.
func (h *hintFinder) add(at ast.Node, message string, hint ast.Expr) {
	text := h.text(hint)
	if call, ok := hint.(*ast.CallExpr); ok && known(message) {
		name := h.pkg + "." + lastName(call.Fun)
		if s, ok := call.Fun.(*ast.SelectorExpr); ok {
			name = lastName(s.X) + "." + lastName(s)
		}
		text = cmp.Or(h.returned[name], text)
	}
	if _, own, ok := strings.Cut(text, "hint: "); ok {
		text = own
	}
	if !known(text) {
		if cause := cmp.Or(h.causeOf(hint), h.causeOf(at)); cause == "" && !h.foundElsewhere(hint) {
			h.t.Errorf(`%s: the text of this hint is not known: write it here, or let a function whose name ends in Hint return it`, h.positions.Position(hint.Pos()))
		}
		return
	}
	if !known(message) {
		message = ""
	}
	found := hintInCode{file: h.file, message: message, cause: cmp.Or(h.causeOf(hint), h.causeOf(at)), text: strings.TrimSpace(text)}
	h.require(hint, found)
	h.found = append(h.found, found)
}

// foundElsewhere reports whether an expression that has no text needs none here. It may be empty, it may not be a text,
// or it may come from a variable, field or function about hints. These are searched where they get their texts.
func (h *hintFinder) foundElsewhere(e ast.Expr) (found bool) {
	switch e := e.(type) {
	case *ast.BasicLit, *ast.FuncLit, *ast.CompositeLit, *ast.IndexExpr: // a map of texts, such as the tooltips of the dashboard
		return true
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return true
		}
	case *ast.Ident:
		if e.Name == "nil" {
			return true
		}
	}
	if strings.HasPrefix(h.file, "extract/") { // there, a hint is what penstock guesses about the paging of a list
		return true
	}
	ast.Inspect(e, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok && hintNamed.MatchString(name.Name) {
			found = true
		}
		return !found
	})
	return found
}

// causeOf returns the comment about the cause above a line of the code.
func (h *hintFinder) causeOf(n ast.Node) string { return h.causes[h.positions.Position(n.Pos()).Line] }
