package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// metaphors are words that must not name a type: docs/GLOSSARY.md has the terms of the field.
var metaphors = strings.Fields(`
	all averse bearings book brought by ceiling corner cover crowd deed draft errand fate firsthit flaw floor forgo
	forsake frame give grip guess habits hand hands hooks hunt inquest island keptpurse kin kinship landed lends lent
	lesson loan lookout many mark mend most own parcel places plot poison portion purse quarters room round ruling
	rulings shared shed sheet shelf shift sieve sift silent sink site slope spare spool stall standing stay stroke
	tabled tell tenancy thin told trims trouble turn twin vigil whose why`)

// TestTypesAreNamedPlainly checks that no type is named by one of these words.
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
					t.Errorf("%s: the type %s is named by a metaphor", path, name)
				}
			}
		}
	})
}

// plainer maps patterns of words to a plainer alternative.
var plainer = map[string]string{
	`is told|are told`: "reports", `stands|stand for`: "is", `bears`: "has", `whoever`: "name the process or the person",
	`be it`: "leave it out", `by then`: "name the time", `of its own accord`: "by itself",
}

// TestPagesArePlain checks that the pages do not use these words.
func TestPagesArePlain(t *testing.T) {
	t.Parallel()
	for name, text := range pages(t) {
		for pattern, better := range plainer {
			for i, line := range strings.Split(text, "\n") {
				found := regexp.MustCompile(`(?i)\b(` + pattern + `)\b`).FindString(line)
				if found != "" {
					t.Errorf("%s:%d: %q; better: %s", name, i+1, found, better)
				}
			}
		}
	}
}
