// Package imports turns what somebody has published about an API, an OpenAPI
// document or a Postman collection, into streams of pipelines.yaml. It is pure:
// bytes go in, definitions and text come out; it opens no file, follows no
// reference to another document and sends no request. Begin with [OpenAPI] or
// [Postman], give what they return to [Define], and that to [Merge].
package imports

import (
	"fmt"
	"slices"
	"strings"
)

// What a document may hold, so that none can exhaust the process that reads it.
const (
	MaxBytes      = 32 << 20 // of document
	maxNesting    = 200      // of JSON's brackets
	maxOperations = 5_000
	maxShapes     = 400_000 // schemas visited, references followed
	maxShapeDepth = 8       // below an answer's root: deeper ones are JSON text anyway
	maxMembers    = 2_000   // of one object
)

// Description is what a document says of an API.
type Description struct {
	Title      string
	Servers    []string // base URLs, absolute or paths, the first one preferred
	Operations []Operation

	// Examples says that the answers are examples, not schemas: where things
	// stand in them can be relied upon, what kind a value is cannot.
	Examples bool
}

// Operation is one method of one path.
type Operation struct {
	Method, Path string // as the document writes them; places in the path as {name}
	Line         int    // of the document; 0 where it is not known
	Text         string // what it is for
	Tag          string // the group it belongs to
	Public       bool   // it is said to need no credential
	Params       []Param
	Media        string // of an answer that is no JSON; "" where it is, or nothing is said
	Answer       *Shape // of the body of success; nil where nothing is said
}

// Call is the operation as people write it: GET /pets.
func (o Operation) Call() string { return o.Method + " " + o.Path }

// Param is one parameter of an operation.
type Param struct {
	Name     string
	In       string // path, query, header or cookie
	Required bool
	Value    string // the only or the usual one; "" where none is stated
	Max      int    // of a number; 0 where none is stated
}

// Kind is what a JSON value is.
type Kind string

// The kinds of values. The zero value is a value of any kind.
const (
	Any     Kind = ""
	Object  Kind = "object"
	Array   Kind = "array"
	String  Kind = "string"
	Integer Kind = "integer"
	Number  Kind = "number"
	Boolean Kind = "boolean"
)

// Shape is what is said of a JSON value.
type Shape struct {
	Kind    Kind
	Format  string   // of a string: date, date-time, uuid …
	Text    string   // what the value means
	Enum    []string // the values there are; nil where any may come
	Members []Member // of an object, by name
	Elem    *Shape   // of an array; nil where nothing is said
}

// Member is one member of an object.
type Member struct {
	Name string
	*Shape
}

// member is the member of that name; nil if there is none, or no object.
func (s *Shape) member(name string) *Shape {
	if s == nil {
		return nil
	}
	if i := slices.IndexFunc(s.Members, func(m Member) bool { return m.Name == name }); i >= 0 {
		return s.Members[i].Shape
	}
	return nil
}

// Error is what is wrong with a document, and where.
type Error struct {
	File      string
	Line, Col int // 0 where it is not known
	Message   string
	Hint      string // what to do; "" where there is nothing to say
}

// Error is file:line:col: message, as far as these are known.
func (e *Error) Error() string {
	switch {
	case e.Line > 0 && e.Col > 0:
		return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Message)
	case e.Line > 0:
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message)
	}
	return e.File + ": " + e.Message
}

// bounded refuses what is too large or too deep to be given to a parser.
func bounded(file string, data []byte) error {
	if len(data) > MaxBytes {
		return &Error{File: file, Message: fmt.Sprintf("larger than %d MiB", MaxBytes>>20)}
	}
	head := strings.TrimLeft(string(data[:min(len(data), 4096)]), " \t\r\n\ufeff")
	switch {
	case head == "":
		return &Error{File: file, Message: "empty"}
	case head[0] != '{':
		return nil // YAML, whose parser counts by itself
	}
	open, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '}' || c == ']':
			open--
		case c == '{' || c == '[':
			if open++; open > maxNesting {
				line, col := place(data, i)
				return &Error{File: file, Line: line, Col: col, Message: fmt.Sprintf("nested more than %d levels deep", maxNesting)}
			}
		}
	}
	return nil
}

// place is the line and column of the byte at i, both from 1.
func place(data []byte, i int) (line, col int) {
	before := string(data[:min(i, len(data))])
	line = strings.Count(before, "\n") + 1
	return line, len(before) - strings.LastIndexByte(before, '\n')
}

// longest is how much of a description a comment of a table takes.
const longest = 500

// sentence is the first paragraph of a text on one line, cut where it is long.
func sentence(text string) string {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
	text, _, _ = strings.Cut(text, "\n\n")
	text = strings.Join(strings.Fields(strings.ToValidUTF8(strings.Map(printable, text), "")), " ")
	if runes := []rune(text); len(runes) > longest {
		text = strings.TrimSpace(string(runes[:longest-1])) + "…"
	}
	return text
}

// printable drops what would move a cursor or reverse the text of a terminal.
func printable(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return ' '
	case r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0xfeff:
		return -1
	}
	return r
}
