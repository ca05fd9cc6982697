// Package imports turns a published description of an API into streams of pipelines.yaml. The description is an OpenAPI
// document or a Postman collection. The package opens no files, follows no references to other documents, and sends no
// requests. Start with [OpenAPI] or [Postman]. Pass the result to [Define], and the streams from Define to [Merge].
package imports

import (
	"fmt"
	"slices"
	"strings"
)

// Limits of a document, so that no document uses too much memory or time.
const (
	MaxBytes      = 32 << 20 // size of a document
	maxNesting    = 200      // nesting of JSON's brackets
	maxOperations = 5_000
	maxShapes     = 400_000 // schemas visited, including followed references
	maxShapeDepth = 8       // levels below the root of an answer; deeper values become JSON text anyway
	maxMembers    = 2_000   // members of one object
)

// Description is what a document says about an API.
type Description struct {
	Title      string
	Servers    []string // base URLs, absolute or only a path; the preferred one is first
	Operations []Operation

	// Examples is true if the answers are examples, not schemas. The structure of examples is reliable, but the
	// types of their values are not.
	Examples bool
}

// Operation is one method of one path.
type Operation struct {
	Method, Path string // as in the document; placeholders in the path are {name}
	Line         int    // line in the document; 0 if unknown
	Text         string // description
	Tag          string // group
	Public       bool   // the document says that no credential is needed
	Params       []Param
	Media        string // media type of an answer that is not JSON; "" if it is JSON or unknown
	Answer       *Shape // shape of a successful answer; nil if unknown
}

// Call returns the operation as users write it: GET /pets.
func (o Operation) Call() string { return o.Method + " " + o.Path }

// Param is one parameter of an operation.
type Param struct {
	Name     string
	In       string // path, query, header or cookie
	Required bool
	Value    string // the only value, or the default value; "" if the document has none
	Max      int    // maximum of a number; 0 if the document has none
}

// Kind is the kind of a JSON value.
type Kind string

// The kinds of values. Any, the zero value, means that the kind is not known.
const (
	Any     Kind = ""
	Object  Kind = "object"
	Array   Kind = "array"
	String  Kind = "string"
	Integer Kind = "integer"
	Number  Kind = "number"
	Boolean Kind = "boolean"
)

// Shape describes a JSON value.
type Shape struct {
	Kind    Kind
	Format  string   // format of a string, such as date or uuid
	Text    string   // description of the value
	Enum    []string // allowed values; nil: any
	Members []Member // members of an object, sorted by name
	Elem    *Shape   // element of an array; nil if unknown
}

// Member is one member of an object.
type Member struct {
	Name string
	*Shape
}

// member returns the member with that name; nil if there is none, or s is not an object.
func (s *Shape) member(name string) *Shape {
	if s == nil {
		return nil
	}
	if i := slices.IndexFunc(s.Members, func(m Member) bool { return m.Name == name }); i >= 0 {
		return s.Members[i].Shape
	}
	return nil
}

// Error is an error in a document, with its position.
type Error struct {
	File      string
	Line, Col int // 0 if unknown
	Message   string
	Hint      string // what to do; "" if there is no hint
}

// Error returns file:line:col: message, without the parts that are not known.
func (e *Error) Error() string {
	switch {
	case e.File == "":
		return e.Message
	case e.Line > 0 && e.Col > 0:
		return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Col, e.Message)
	case e.Line > 0:
		return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Message)
	}
	return e.File + ": " + e.Message
}

// bounded() returns an error for data that is too large or too deep for a parser.
func bounded(file string, data []byte) error {
	if len(data) > MaxBytes {
		return &Error{File: file, Message: fmt.Sprintf("larger than %d MiB", MaxBytes>>20)}
	}
	head := strings.TrimLeft(string(data[:min(len(data), 4096)]), " \t\r\n\ufeff")
	switch {
	case head == "":
		return &Error{File: file, Message: "empty"}
	case head[0] != '{':
		return nil // YAML: its parser has its own limit
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

// place returns the line and column of the byte at i, both from 1.
func place(data []byte, i int) (line, col int) {
	before := string(data[:min(i, len(data))])
	line = strings.Count(before, "\n") + 1
	return line, len(before) - strings.LastIndexByte(before, '\n')
}

// longest is the maximum length of a description, in runes.
const longest = 500

// sentence returns the first paragraph of a text on one line, cut if it is long.
func sentence(text string) string {
	text = strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n"))
	text, _, _ = strings.Cut(text, "\n\n")
	text = strings.Join(strings.Fields(strings.ToValidUTF8(strings.Map(printable, text), "")), " ")
	if runes := []rune(text); len(runes) > longest {
		text = strings.TrimSpace(string(runes[:longest-1])) + "…"
	}
	return text
}

// printable drops characters that would move the cursor of a terminal or reverse the direction of its text.
func printable(r rune) rune {
	switch {
	case r == '\n' || r == '\t':
		return ' '
	case r < ' ' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 || r == 0xfeff:
		return -1
	}
	return r
}
