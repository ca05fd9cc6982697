package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

type block struct {
	lines []line
	words bool // check only single words, not the length of sentences, because the text is markup or a message with placeholders
}

type line struct {
	number int
	text   string
}

func blocks(name, text string) ([]block, error) {
	switch filepath.Ext(name) {
	case ".go":
		return goBlocks(name, text)
	case ".md":
		return paragraphs(markdown(text), 1), nil
	case ".html", ".tmpl":
		return wordsOnly(paragraphs(markup.ReplaceAllStringFunc(text, blank), 1)), nil
	case ".yaml", ".yml", ".sh", ".service", ".txtar":
		return paragraphs(hashComments(text), 1), nil
	case ".sql":
		return paragraphs(sqlComments(text), 1), nil
	}
	if base := filepath.Base(name); base == "Makefile" || base == "Dockerfile" || filepath.Base(filepath.Dir(name)) == ".ci" {
		return paragraphs(hashComments(text), 1), nil
	}
	return nil, nil
}

var (
	markup = regexp.MustCompile(`(?s)<(?:style|script)\b.*?</(?:style|script)>|<!--.*?-->|<[^>]*>|\{\{.*?\}\}`)
	fence  = regexp.MustCompile("(?ms)^ *```.*?^ *```[^\n]*$")
	item   = regexp.MustCompile(`^\s*(?:[-*] |\d+\. |#+ |\|)`)
)

// blank replaces text by its line breaks, so that later lines keep their numbers.
func blank(text string) string { return " " + strings.Repeat("\n", strings.Count(text, "\n")) }

// markdown returns a page without its code blocks. Each cell of a table becomes a sentence.
func markdown(text string) string {
	lines := strings.Split(fence.ReplaceAllStringFunc(text, blank), "\n")
	for i, l := range lines {
		if strings.HasPrefix(strings.TrimSpace(l), "|") {
			lines[i] = strings.ReplaceAll(l, "|", " . ")
		}
	}
	return strings.Join(lines, "\n")
}

func hashComments(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		_, comment, ok := strings.Cut(" "+l, " #")
		if !ok || strings.HasPrefix(comment, "!") {
			comment = ""
		}
		lines[i] = strings.TrimLeft(comment, "# ")
	}
	return strings.Join(lines, "\n")
}

func sqlComments(text string) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		_, comment, _ := strings.Cut(l, "--")
		lines[i] = strings.TrimLeft(comment, "- ")
	}
	return strings.Join(lines, "\n")
}

// paragraphs splits text at empty lines, indented code, list items and headings. The second argument is the line
// number at which the text begins.
func paragraphs(text string, first int) []block {
	var all []block
	var current block
	end := func() {
		if len(current.lines) > 0 {
			all = append(all, current)
		}
		current = block{}
	}
	for i, l := range strings.Split(text, "\n") {
		trimmed := strings.TrimSpace(l)
		switch {
		case trimmed == "", strings.HasPrefix(l, "\t"), strings.HasPrefix(l, "    ") && len(current.lines) == 0:
			end()
			continue
		case item.MatchString(l):
			end()
		}
		current.lines = append(current.lines, line{first + i, item.ReplaceAllString(l, "")})
	}
	end()
	return all
}

func wordsOnly(all []block) []block {
	for i := range all {
		all[i].words = true
	}
	return all
}

// goBlocks returns the comments and messages of a Go file. The messages of test files are left out.
func goBlocks(name, text string) ([]block, error) {
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var all []block
	names := declared(f)
	for _, group := range f.Comments {
		text := names.ReplaceAllStringFunc(commentText(group), mask)
		all = append(all, paragraphs(text, files.Position(group.Pos()).Line)...)
	}
	if strings.HasSuffix(name, "_test.go") {
		return all, nil
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil
		case *ast.BasicLit:
			if value, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && isMessage(value) {
				all = append(all, wordsOnly(paragraphs(value, files.Position(n.Pos()).Line))...)
			}
		}
		return true
	})
	return all, nil
}

// declared returns a pattern for words that are names of functions, types or fields in the file. If such a word is
// among the words to avoid, comments may use it nevertheless.
func declared(f *ast.File) *regexp.Regexp {
	words := []string{"_"}
	add := func(name *ast.Ident) {
		if slices.ContainsFunc(patterns, func(p *regexp.Regexp) bool { return p.MatchString(name.Name) }) {
			words = append(words, name.Name)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			add(n.Name)
		case *ast.TypeSpec:
			add(n.Name)
		case *ast.Field:
			for _, name := range n.Names {
				add(name)
			}
		}
		return true
	})
	return regexp.MustCompile(`\b(?:` + strings.Join(words, "|") + `)\b`)
}

// commentText returns the text of a comment. Directives such as //go:build become empty lines, so that line
// numbers stay right.
func commentText(group *ast.CommentGroup) string {
	var lines []string
	for _, c := range group.List {
		text := strings.TrimSuffix(c.Text, "*/")
		if directive.MatchString(text) {
			text = "//"
		}
		for _, l := range strings.Split(text[2:], "\n") {
			lines = append(lines, strings.TrimPrefix(l, " "))
		}
	}
	return strings.Join(lines, "\n")
}

var (
	directive = regexp.MustCompile(`^//[a-z]+:`)
	sql       = regexp.MustCompile(`\b(?:SELECT|INSERT|UPDATE|DELETE|CREATE|ALTER|DROP|FROM|WHERE|VALUES|MERGE)\b`)
	phrase    = regexp.MustCompile(`[A-Za-z]{2,}[,:;]? [a-z]{2,}`)
)

// isMessage reports whether a string is text for people: words in a row, and not SQL.
func isMessage(value string) bool { return phrase.MatchString(value) && !sql.MatchString(value) }
