package imports

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Entry is a stream in pipelines.yaml.
type Entry struct {
	Name      string
	From      string // the document from which the stream was imported; "" if the user wrote it
	Operation string // the imported operation; "" if the user wrote the stream
	Method    string
	Path      string
}

// Entries returns the streams of a pipelines.yaml. The error is an [*Error].
func Entries(file string, data []byte) ([]Entry, error) {
	doc, err := parse(file, data)
	if err != nil {
		return nil, err
	}
	var all []Entry
	for _, e := range doc.entries {
		one := Entry{Name: e.name, Method: "GET", Path: e.word("path")}
		if m := e.word("method"); m != "" {
			one.Method = m
		}
		if e.imported != nil {
			one.From, one.Operation = e.imported.word("from"), e.imported.word("operation")
			if one.Path == "" {
				one.Path = e.imported.word("path")
			}
		}
		all = append(all, one)
	}
	return all, nil
}

// Limits of the pipelines.yaml. The same limits apply when the file is read as a configuration. They are necessary
// because the parser's time grows with the square of the number of tokens.
const (
	maxFile   = 1 << 20
	maxTokens = 50_000
)

// document is a parsed pipelines.yaml, with the positions of its streams.
type document struct {
	file    string
	data    string // the text, in which lines end in \n even if crlf is set
	crlf    bool   // the file has \r\n line ends
	lines   []int  // offset of each line
	streams *entry // the key `streams`; nil if there is none
	entries []entry
}

// position is a line and a column in runes, both from 1.
type position struct{ line, col int }

// entry is a key of the file, and the position and style of its value.
type entry struct {
	name     string
	key      position
	value    ast.Node
	mapping  bool // the value is a mapping, in block style or in braces
	flow     bool // the value is in braces
	empty    bool // the value is null or {}
	alias    bool
	first    position // start of the value
	end      position // position of the closing brace, if flow is set
	imported *entry   // its key `imported`; nil if there is none
}

// word returns the text value of a key in the entry's mapping; "" if the mapping has no such key.
func (e entry) word(key string) string {
	m, ok := bare(e.value).(ast.MapNode)
	if !ok {
		return ""
	}
	for it := m.MapRange(); it.Next(); {
		if s, ok := it.Value().(*ast.StringNode); ok && keyOf(it.Key()) == key {
			return strings.ReplaceAll(s.Value, "$${", "${")
		}
	}
	return ""
}

func keyOf(k ast.MapKeyNode) string {
	if s, ok := k.(*ast.StringNode); ok {
		return s.Value
	}
	return k.GetToken().Value
}

// bare returns a node without its YAML anchor and tag.
func bare(n ast.Node) ast.Node {
	switch v := n.(type) {
	case *ast.AnchorNode:
		return bare(v.Value)
	case *ast.TagNode:
		return bare(v.Value)
	}
	return n
}

func parse(file string, data []byte) (*document, error) {
	d := &document{file: file, data: strings.ReplaceAll(string(data), "\r\n", "\n")}
	d.crlf = len(d.data) < len(data)
	switch {
	case len(data) > maxFile:
		return nil, &Error{File: file, Message: "larger than a configuration may be"}
	case !utf8.Valid(data):
		return nil, &Error{File: file, Message: "not UTF-8"}
	case strings.Contains(d.data, "\r"):
		return nil, &Error{File: file, Message: "a carriage return without a line feed"}
	case d.crlf && len(data)-len(d.data) != strings.Count(d.data, "\n"):
		return nil, &Error{File: file, Message: "some lines end in \\r\\n and some in \\n; make them all the same, then import again"}
	}
	d.lines = []int{0}
	for i := range len(d.data) {
		if d.data[i] == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
	tokens := lexer.Tokenize(d.data)
	if len(tokens) > maxTokens {
		return nil, &Error{File: file, Message: fmt.Sprintf("more than %d tokens", maxTokens)}
	}
	if at, deep := tooDeep(tokens); deep {
		return nil, d.fault(at, "nested more than %d levels deep", maxLevels)
	}
	f, err := parser.Parse(tokens, 0)
	if err != nil {
		return nil, syntax(file, err)
	}
	if len(f.Docs) > 1 && f.Docs[1].Body != nil {
		return nil, &Error{File: file, Message: "the file has a second document; only one is allowed"}
	}
	if len(f.Docs) == 0 || f.Docs[0].Body == nil {
		return d, nil
	}
	return d, d.find(f.Docs[0].Body)
}

// maxLevels is the maximum nesting. The parser is recursive, so deeper nesting could use up the stack.
const maxLevels = 64

// tooDeep returns the position at which brackets, or entries on one line, are nested too deep.
func tooDeep(tokens token.Tokens) (position, bool) {
	open, inline, line := 0, 0, 0
	for _, t := range tokens {
		at := positionOf(t)
		if at.line != line {
			line, inline = at.line, 0
		}
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			open++
		case token.MappingEndType, token.SequenceEndType:
			open--
		case token.SequenceEntryType, token.MappingKeyType, token.TagType, token.AnchorType:
			inline++
		}
		if open > maxLevels || inline > maxLevels || t.Position != nil && t.Position.IndentNum > 4*maxLevels {
			return at, true
		}
	}
	return position{}, false
}

func syntax(file string, err error) error {
	e := &Error{File: file, Message: "not YAML: " + sentence(err.Error())}
	if se, ok := errors.AsType[*yaml.SyntaxError](err); ok {
		e.Message = "not YAML: " + sentence(se.Message)
		if se.Token != nil && se.Token.Position != nil {
			e.Line, e.Col = se.Token.Position.Line, se.Token.Position.Column
		}
	}
	return e
}

// find finds the streams and their positions.
func (d *document) find(root ast.Node) error {
	if _, comment := root.(*ast.CommentGroupNode); comment {
		return nil
	}
	m, ok := root.(ast.MapNode)
	if _, null := root.(*ast.NullNode); null {
		return nil
	}
	if inBraces, _ := braces(root); !ok || inBraces {
		return &Error{File: d.file, Line: 1, Message: "want one key per line, such as `streams:`"}
	}
	for it := m.MapRange(); it.Next(); {
		if keyOf(it.Key()) != "streams" {
			continue
		}
		e := newEntry(it.Key(), it.Value())
		d.streams = &e
		d.entries = under(e)
		for i := range d.entries {
			for _, inner := range under(d.entries[i]) {
				if inner.name == "imported" {
					d.entries[i].imported = &inner
				}
			}
		}
	}
	return nil
}

// under() returns the entries of a mapping.
func under(e entry) []entry {
	m, ok := bare(e.value).(ast.MapNode)
	if !ok || e.alias {
		return nil
	}
	var all []entry
	for it := m.MapRange(); it.Next(); {
		if _, merge := it.Key().(*ast.MergeKeyNode); !merge {
			all = append(all, newEntry(it.Key(), it.Value()))
		}
	}
	return all
}

func newEntry(key ast.MapKeyNode, value ast.Node) entry {
	e := entry{name: keyOf(key), key: positionOf(key.GetToken()), value: value}
	n := bare(value)
	_, e.alias = n.(*ast.AliasNode)
	_, e.mapping = n.(ast.MapNode)
	if null, ok := n.(*ast.NullNode); ok {
		e.empty = null.GetToken() == nil || null.GetToken().Type == token.ImplicitNullType || null.GetToken().Value == ""
	}
	if !e.mapping {
		return e
	}
	if inBraces, m := braces(n); inBraces {
		e.flow, e.empty = true, len(m.Values) == 0
		e.first, e.end = positionOf(m.Start), positionOf(m.End)
		return e
	}
	it := n.(ast.MapNode).MapRange()
	if it.Next() {
		e.first = positionOf(it.Key().GetToken())
	}
	return e
}

func braces(n ast.Node) (bool, *ast.MappingNode) {
	m, ok := n.(*ast.MappingNode)
	return ok && m.IsFlowStyle, m
}

func positionOf(t *token.Token) position {
	if t == nil || t.Position == nil {
		return position{1, 1}
	}
	return position{t.Position.Line, t.Position.Column}
}

func (d *document) fault(at position, format string, args ...any) error {
	return &Error{File: d.file, Line: at.line, Col: at.col, Message: fmt.Sprintf(format, args...)}
}

// entry returns the stream with that name.
func (d *document) entry(name string) (entry, bool) {
	i := slices.IndexFunc(d.entries, func(e entry) bool { return e.name == name })
	if i < 0 {
		return entry{}, false
	}
	return d.entries[i], true
}

// at() returns the byte offset of a position.
func (d *document) at(s position) int {
	i := d.lines[min(max(s.line, 1), len(d.lines))-1]
	for n := 1; n < s.col && i < len(d.data); n++ {
		_, size := utf8.DecodeRuneInString(d.data[i:])
		i += size
	}
	return i
}

func (d *document) text(from, to int) string { return d.data[from:to] }

// endOf returns the byte offset after a line.
func (d *document) endOf(line int) int {
	if line >= len(d.lines) {
		return len(d.data)
	}
	return d.lines[line]
}

// lastLine returns the last line of a value in block style. The lines of the value are indented more than the key. A
// comment that is indented less belongs to the next key.
func (d *document) lastLine(key position) int {
	last := key.line
	for n := key.line + 1; n <= len(d.lines); n++ {
		line := strings.TrimRight(d.data[d.lines[n-1]:d.endOf(n)], "\r\n")
		body := strings.TrimLeft(line, " ")
		switch deeper := len(line)-len(body) >= key.col; {
		case strings.TrimSpace(body) == "":
		case deeper:
			last = n
		case !strings.HasPrefix(body, "#"):
			return last
		}
	}
	return last
}
