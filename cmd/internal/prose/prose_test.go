package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFindings(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", maxWords)
	for _, c := range []struct{ name, text, want string }{
		{"a.go", "package a\n\n// A is told of it.\nfunc A() {}\n", `a.go:3: "told": better reports, prints, says`},
		{"a.go", "package a\n\n// A lets\n// go of it.\nfunc A() {}\n", `a.go:3: "lets go of": better releases, closes, terminates`},
		{"a.go", "package a\n\n// A reports it.\nfunc A() {}\n", ""},
		{"a.go", "package a\n\n// Tell tells it.\nfunc Tell() {}\n", `a.go:3: "tells": better reports, prints, says`},
		{"a.go", "package a\n\n// A reads b.Anew anew.\nfunc A() {}\n", `a.go:3: "anew": better again`},
		{"a.go", "package a\n\nconst told = `told`\n", ""}, // a name and a value
		{"a.go", "package a\n\nvar x = \"nobody reads %s here\"\n", `a.go:3: "nobody": better name the process or the person`},
		{"a.go", "package a\n\nvar x = `SELECT nobody reads it FROM x`\n", ""},
		{"a_test.go", "package a\n\nvar x = \"nobody reads %s here\"\n", ""},
		{"a.go", "package a\n\n// A " + long + "\n// and more.\nfunc A() {}\n", "a.go:3: a sentence of 43 words"},
		{"a.go", "package a\n\n// A does it.\n//\n//\tcode " + long + "\nfunc A() {}\n", ""},
		{"a.md", "# A\n\nIt stands in\nthe table.\n", `a.md:3: "stands": better is`},
		{"a.md", "It stands for `told`.\n\n```\nnobody\n```\n\nleave it alone\n", ""},
		{"a.md", "- " + long + "\n- " + long + "\n", ""},
		{"a.md", "- " + long + "\n  and more\n", "a.md:1: a sentence of 42 words"},
		{"a.html", "<p>\n<b>By then</b> {{.nobody}}</p>", `a.html:2: "By then": better name the time`},
		{"a.yaml", "told: nobody # be it so\n", `a.yaml:1: "be it": better leave it out`},
		{".ci/run", "#!/bin/sh\nmake lest # again\n", ""},
		{".ci/run", "# Nobody runs it.\n", `.ci/run:1: "Nobody": better name the process or the person`},
		{"a.sql", "SELECT told -- anew\n", `a.sql:1: "anew": better again`},
		{"a.json", `{"a": "nobody reads this"}`, ""},
	} {
		found, err := findings(c.name, c.text)
		require.NoError(t, err)
		var got []string
		for _, f := range found {
			got = append(got, f.String())
		}
		require.Equal(t, c.want, strings.Join(got, "\n"), "%s: %s", c.name, c.text)
	}
}
