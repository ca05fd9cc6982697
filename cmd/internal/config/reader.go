package config

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// Limits for the file, so that a very large or hostile file cannot use up memory or time.
const (
	maxBytes  = 1 << 20 // bytes of the file
	maxTokens = 50_000  // words and signs; if their number doubles, the parser needs four times as long
	maxDepth  = 64      // levels of nested mappings and lists
	maxNodes  = 20_000  // values that are read; if several aliases refer to a value, it counts several times
)

// reader has a parsed file. It collects the faults and the secrets of the file.
type reader struct {
	Input
	anchors  map[string]ast.Node
	visited  int
	left     int // references that could not be resolved, and that the current command does not need
	faults   Faults
	secrets  []wire.Secret
	observer func(ast.Node, sighting) // called with each value, and with what the reader expects of it; set only by Describe
	commands *commands                // set by [Parse]; otherwise nil
}

func (r *reader) fault(p Pos, format string, args ...any) {
	r.faults = append(r.faults, Fault{File: r.File, Pos: p, Message: fmt.Sprintf(format, args...)})
}

// document parses a file. It returns nil if the file is not a YAML document.
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

// tooDeep finds nesting that is too deep before the parser runs. The parser is recursive, so deep nesting could exhaust
// its stack.
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

// Visit stores the value of each anchor (&name), so that this value can later replace an alias (*name).
func (a anchorer) Visit(n ast.Node) ast.Visitor {
	if an, ok := n.(*ast.AnchorNode); ok && an.Name != nil {
		a[an.Name.String()] = an.Value
	}
	return a
}

// resolve follows anchors, tags and aliases to the value itself. It limits the number of values that are read, because
// a short file with nested aliases can have billions of values.
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

// Input is what Parse needs in addition to the bytes of the file.
type Input struct {
	File             string                              // file name for messages
	Env              func(name string) (string, bool)    // os.LookupEnv, or a substitute in tests
	Read             func(path string) (string, error)   // returns the content for ${file:…}
	Run              func(argv []string) (string, error) // runs the command of ${cmd:…} and returns its output; nil: commands are not run
	DestinationsOnly bool                                // only destinations and the state are needed: other commands are not run, and other credentials may be missing
	Rows             func(Listing) ([]Row, error)        // returns the rows of a listing; nil: listings give no sources
	Catalogue        []schemas.Stream                    // all endpoints, including writes
	Schemes          []string                            // URL schemes of the destinations
}
