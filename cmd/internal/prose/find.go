package main

import (
	"fmt"
	"regexp"
	"strings"
)

type finding struct {
	file string
	line int
	text string
}

// String returns the finding as file:line: text, which editors can open.
func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.file, f.line, f.text) }

func findings(name, text string) ([]finding, error) {
	all, err := blocks(name, text)
	if err != nil {
		return nil, err
	}
	var found []finding
	for _, b := range all {
		joined := b.text()
		add := func(at int, format string, args ...any) {
			found = append(found, finding{name, b.lineAt(at), fmt.Sprintf(format, args...)})
		}
		plain := allowed.ReplaceAllStringFunc(joined, mask)
		for i, p := range patterns {
			for _, m := range p.FindAllStringIndex(plain, -1) {
				add(m[0], "%q: better %s", joined[m[0]:m[1]], rules[i].better)
			}
		}
		if b.words {
			continue
		}
		for _, s := range sentences(joined) {
			if n := len(wordsOf.FindAllString(joined[s[0]:s[1]], -1)); n > maxWords {
				add(s[0], "a sentence of %d words", n)
			}
		}
	}
	return found, nil
}

var (
	code    = regexp.MustCompile("`[^`]*`|\\b[a-z]\\w*\\.[A-Z]\\w*")
	link    = regexp.MustCompile(`\]\([^)]*\)`)
	wordsOf = regexp.MustCompile(`[A-Za-z0-9_.'’/$%-]*[A-Za-z0-9][A-Za-z0-9_.'’/$%-]*`)
	stop    = regexp.MustCompile(`[.!?:]["')]*\s+`)
)

func mask(text string) string { return strings.Repeat("~", len(text)) }

func (b block) text() string {
	var joined strings.Builder
	for _, l := range b.lines {
		joined.WriteString(l.text)
		joined.WriteByte(' ')
	}
	return link.ReplaceAllStringFunc(code.ReplaceAllStringFunc(joined.String(), mask), mask)
}

func (b block) lineAt(offset int) int {
	for _, l := range b.lines {
		if offset -= len(l.text) + 1; offset < 0 {
			return l.number
		}
	}
	return b.lines[len(b.lines)-1].number
}

func sentences(text string) [][2]int {
	var all [][2]int
	start := 0
	for _, m := range stop.FindAllStringIndex(text, -1) {
		all = append(all, [2]int{start, m[1]})
		start = m[1]
	}
	return append(all, [2]int{start, len(text)})
}
