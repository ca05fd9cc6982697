package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/penstock-data/penstock/extract/wire"
)

// Limits that keep a large or hostile file from exhausting memory and time.
const (
	maxBytes  = 1 << 20 // of the file
	maxTokens = 50_000  // words and signs; the parser's time grows with the square of their number
	maxDepth  = 64      // of nested mappings and lists
	maxNodes  = 20_000  // values that are read; a value counts again for each alias of it
	maxFaults = 100     // faults that are reported
)

// reader walks a parsed file and collects its errors. It continues after an error as far as it can.
type reader struct {
	Input
	anchors  map[string]ast.Node
	visited  int
	faults   Faults
	secrets  []wire.Secret
	observer func(ast.Node, sighting) // called with how each value is read; set only by Describe

	row          *Row     // the row from which a source is being made; nil for sources of the file
	rowOf        *Listing // the listing of row
	rowName      string   // the name of the source
	asSecret     bool     // a credential is being read
	readingPlace bool     // a destination or the state is being read
	resolved     bool     // a ${…} was replaced; used by the method again

	commands *commands // set by [Parse]; otherwise nil
	urlName  string    // what the URL that is being read is called in messages; "": no URL is being read

	maxColumns, maxTables int // the file's defaults for its streams; 0: the default of each destination
}

type entry struct {
	key   string
	at    Pos
	value ast.Node
}

type fields map[string]func(ast.Node)

func (r *reader) fault(p Pos, format string, args ...any) {
	r.faults = append(r.faults, Fault{File: r.File, Pos: p, Message: fmt.Sprintf(format, args...)})
}

func (r *reader) document(data []byte) ast.Node {
	if len(data) > maxBytes {
		r.fault(Pos{}, "larger than %d bytes, the maximum for a configuration", maxBytes)
		return nil
	}
	// The lexer counts lines wrongly if a comment ends in \r\n.
	tokens := lexer.Tokenize(strings.ReplaceAll(string(data), "\r\n", "\n"))
	if len(tokens) > maxTokens {
		r.fault(Pos{}, "more than %d words and signs; list thousands of sources instead: `sources: {from: {file: …}, template: {…}}`", maxTokens)
		return nil
	}
	if p, deep := tooDeep(tokens); deep {
		r.fault(p, "nested more than %d levels deep", maxDepth)
		return nil
	}
	f, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		r.syntax(err)
		return nil
	}
	if len(f.Docs) > 1 && f.Docs[1].Body != nil {
		r.fault(posOf(f.Docs[1].Body), "a second document; want only one")
	}
	if len(f.Docs) == 0 || f.Docs[0].Body == nil {
		r.fault(Pos{Line: 1, Col: 1}, "empty; start with `version: 1`")
		return nil
	}
	r.anchors = map[string]ast.Node{}
	ast.Walk(anchorer(r.anchors), f.Docs[0].Body)
	return f.Docs[0].Body
}

// tooDeep finds deep nesting before the parser runs. The parser is recursive, and could exhaust its stack.
func tooDeep(tokens token.Tokens) (Pos, bool) {
	open, inline, line := 0, 0, 0
	for _, t := range tokens {
		if t.Position != nil && t.Position.Line != line {
			line, inline = t.Position.Line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			open++
		case token.MappingEndType, token.SequenceEndType:
			open--
		case token.SequenceEntryType, token.MappingKeyType, token.TagType, token.AnchorType:
			inline++
		}
		if indent := t.Position; open > maxDepth || inline > maxDepth || indent != nil && indent.IndentNum > 4*maxDepth {
			return Pos{Line: line, Col: t.Position.Column}, true
		}
	}
	return Pos{}, false
}

func (r *reader) syntax(err error) {
	var se *yaml.SyntaxError
	if !errors.As(err, &se) || se.Token == nil || se.Token.Position == nil {
		r.fault(Pos{}, "not YAML: %s", firstLine(err.Error()))
		return
	}
	p := Pos{Line: se.Token.Position.Line, Col: se.Token.Position.Column}
	if strings.Contains(se.Token.Origin, "\t") || strings.Contains(se.Message, `'\t'`) {
		r.fault(p, "a tab; YAML is indented with spaces")
		return
	}
	r.fault(p, "not YAML: %s", firstLine(se.Message))
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

type anchorer map[string]ast.Node

// Visit stores the value of each anchor (&name), so that aliases (*name) can be resolved.
func (a anchorer) Visit(n ast.Node) ast.Visitor {
	if an, ok := n.(*ast.AnchorNode); ok && an.Name != nil {
		a[an.Name.String()] = an.Value
	}
	return a
}

// resolve follows anchors, tags and aliases to the value itself. It limits the number of values that are read,
// because nested aliases can stand for billions of values.
func (r *reader) resolve(n ast.Node) ast.Node {
	for range maxDepth {
		if r.visited++; r.visited > maxNodes {
			if r.visited == maxNodes+1 {
				r.fault(posOf(n), "more than %d values once aliases are followed", maxNodes)
			}
			return nil
		}
		switch v := n.(type) {
		case *ast.AnchorNode:
			n = v.Value
		case *ast.TagNode:
			n = v.Value
		case *ast.AliasNode:
			to, ok := r.anchors[v.Value.String()]
			if !ok {
				r.fault(posOf(n), "alias *%s has no anchor", v.Value)
				return nil
			}
			n = to
		default:
			return n
		}
	}
	r.fault(posOf(n), "alias refers to itself")
	return nil
}

func (r *reader) entries(n ast.Node, what string) ([]entry, bool) {
	m, ok := r.resolve(n).(ast.MapNode)
	if !ok {
		r.wrong(n, what, "a mapping")
		return nil, false
	}
	r.observe(n, sighting{mapping: true})
	var own, merged []entry
	seen := map[string]Pos{}
	for it := m.MapRange(); it.Next(); {
		if _, merge := it.Key().(*ast.MergeKeyNode); merge {
			merged = append(merged, r.merged(it.Value(), what)...)
			continue
		}
		e := entry{key: keyText(it.Key()), at: posOf(it.Key()), value: it.Value()}
		if first, twice := seen[e.key]; twice {
			r.fault(e.at, "key %q occurs twice in %s, first in line %d", e.key, what, first.Line)
			continue
		}
		seen[e.key] = e.at
		own = append(own, e)
	}
	for _, e := range merged {
		if _, set := seen[e.key]; !set {
			seen[e.key] = e.at
			own = append(own, e)
		}
	}
	return own, true
}

func (r *reader) merged(n ast.Node, what string) []entry {
	parts := []ast.Node{n}
	if s, ok := r.resolve(n).(*ast.SequenceNode); ok {
		parts = s.Values
	}
	var all []entry
	for _, p := range parts {
		if es, ok := r.entries(p, what); ok {
			all = append(all, es...)
		}
	}
	return all
}

func keyText(k ast.MapKeyNode) string {
	if s, ok := k.(*ast.StringNode); ok {
		return s.Value
	}
	return k.GetToken().Value
}

// mapping reads each key with its function. It reports whether all keys were known. If one was not, it may be
// misspelled, so the caller should not also report that a key is missing.
func (r *reader) mapping(n ast.Node, what string, f fields) bool {
	es, ok := r.entries(n, what)
	if !ok {
		return false
	}
	known := make([]string, 0, len(f))
	for k := range f {
		known = append(known, k)
	}
	slices.Sort(known)
	r.observe(n, sighting{keys: known})
	complete := true
	for _, e := range es {
		read, ok := f[e.key]
		if !ok {
			r.fault(e.at, "unknown key %q in %s%s", e.key, what, suggestion(e.key, known))
			complete = false
			continue
		}
		read(e.value)
	}
	return complete
}

func suggestion(word string, known []string) string {
	if s := didYouMean(word, known); s != "" {
		return s
	}
	if len(known) == 0 || len(known) > 16 {
		return ""
	}
	return "; want " + oneOf(known)
}

func oneOf(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

func (r *reader) list(n ast.Node, what string) []ast.Node {
	switch v := r.resolve(n).(type) {
	case *ast.SequenceNode:
		r.observe(n, sighting{list: true})
		return v.Values
	case nil:
		return nil
	case ast.ScalarNode:
		if _, null := v.(*ast.NullNode); !null {
			return []ast.Node{n}
		}
	}
	r.wrong(n, what, "a list")
	return nil
}

// wrong reports a value of the wrong kind. If the value cannot be resolved, resolve has reported that.
func (r *reader) wrong(n ast.Node, what, wanted string) {
	if v := r.resolve(n); v != nil {
		r.observe(n, sighting{refused: true})
		r.fault(posOf(n), "%s is %s; want %s", what, kindOf(v), wanted)
	}
}

func kindOf(n ast.Node) string {
	switch n.(type) {
	case ast.MapNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "empty"
	case *ast.BoolNode:
		return "a boolean"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "a number"
	}
	return "text"
}

// scalar is a single value: raw as the file has it, and value with each ${…} replaced. Messages quote only raw,
// because value may contain a secret.
type scalar struct {
	raw, value string
	at         Pos
}

// scalar returns a number as the text in the file, so that 0644 stays 0644.
func (r *reader) scalar(n ast.Node, what string) (scalar, bool) {
	s := scalar{at: posOf(n)}
	switch v := r.resolve(n).(type) {
	case *ast.StringNode:
		s.raw = v.Value
	case *ast.LiteralNode:
		s.raw = v.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		s.raw = v.GetToken().Value
	default:
		r.wrong(n, what, "a single value")
		return s, false
	}
	r.observe(n, sighting{single: true})
	text, ok := r.fill(s.raw, s.at)
	s.value = text
	return s, ok
}

func (r *reader) text(n ast.Node, what string) (scalar, bool) {
	s, ok := r.scalar(n, what)
	if ok && strings.TrimSpace(s.value) == "" {
		r.fault(s.at, "%s is empty", what)
		return s, false
	}
	return s, ok
}

func (r *reader) choice(n ast.Node, what string, words ...string) string {
	s, ok := r.text(n, what)
	if !ok {
		return ""
	}
	r.observe(n, sighting{words: words})
	if slices.Contains(words, s.value) {
		return s.value
	}
	r.fault(s.at, "%s %q is unknown%s", what, s.raw, suggestion(s.raw, words))
	return ""
}

func (r *reader) texts(n ast.Node, what string) []scalar {
	var all []scalar
	for _, v := range r.list(n, what) {
		if s, ok := r.text(v, what); ok {
			all = append(all, s)
		}
	}
	return all
}

func (r *reader) number(n ast.Node, what string, low, high int) int {
	s, ok := r.text(n, what)
	if !ok {
		return 0
	}
	r.observe(n, sighting{number: true, low: low, high: high})
	i, err := strconv.Atoi(strings.ReplaceAll(s.value, "_", ""))
	if err != nil || i < low || i > high {
		r.fault(s.at, "%s %q: want a whole number from %d to %d", what, s.raw, low, high)
		return 0
	}
	return i
}
