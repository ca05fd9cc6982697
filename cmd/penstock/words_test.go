package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// metaphors are words that must not be the name of a type. docs/GLOSSARY.md has the words to use.
var metaphors = strings.Fields(`
	all averse bearings book brought by ceiling corner cover crowd deed draft errand fate firsthit flaw floor forgo
	forsake frame give grip guess habits hand hands hooks hunt inquest island keptpurse kin kinship landed lends lent
	lesson loan lookout many mark mend most own parcel places plot poison portion purse quarters room round ruling
	rulings shared shed sheet shelf shift sieve sift silent sink site slope spare spool stall standing stay stroke
	tabled tell tenancy thin told trims trouble turn twin vigil whose why`)

// TestTypesAreNamedPlainly checks that no type has one of these names.
func TestTypesAreNamedPlainly(t *testing.T) {
	t.Parallel()
	eachGoFile(t, func(path, text string) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		require.NoError(t, err)
		for _, d := range f.Decls {
			g, ok := d.(*ast.GenDecl)
			if !ok || g.Tok != token.TYPE {
				continue
			}
			for _, s := range g.Specs {
				name := s.(*ast.TypeSpec).Name.Name
				if slices.Contains(metaphors, strings.ToLower(name)) {
					t.Errorf("%s: the type %s has the name of a metaphor: use a word of docs/GLOSSARY.md", path, name)
				}
			}
		}
	})
}
