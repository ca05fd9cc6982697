package imports

import (
	"slices"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// layout is where the records are in an answer, and the shape of one record.
type layout struct {
	records []string // nil: found by detection at run time
	record  *Shape   // nil: unknown
	class   schemas.Class
}

// layoutOf returns the layout of an operation's answer. If several lists could be the records, it states none of
// them, because a stated place would take precedence over a detected one.
func layoutOf(o Operation) layout {
	single := strings.HasSuffix(strings.TrimRight(o.Path, "/"), "}")
	s := o.Answer
	switch {
	case s == nil || s.Kind == Any:
		if single {
			return layout{class: schemas.ClassDetail}
		}
		return layout{class: schemas.ClassList}
	case s.Kind == Array:
		return layout{records: []string{""}, record: objectOf(s.Elem), class: schemas.ClassList}
	case s.Kind != Object:
		return layout{class: schemas.ClassSingleton}
	}
	if !single && s.member("id") == nil {
		if at, record, sure := list(s, "", lastWord(o.Path), 0); sure {
			return layout{records: []string{at}, record: record, class: schemas.ClassList}
		} else if at != "" {
			return layout{class: schemas.ClassList}
		}
	}
	at, record := one(s)
	l := layout{records: []string{at}, record: record, class: schemas.ClassSingleton}
	if single {
		l.class = schemas.ClassDetail
	}
	return l
}

func objectOf(s *Shape) *Shape {
	if s == nil || s.Kind != Object {
		return nil
	}
	return s
}

// maxUnwrap is the maximum depth of the records in an answer.
const maxUnwrap = 3

// list finds the records of an answer: the only array with the name of the resource or a name that lists usually have,
// or else the only array of objects in s. If there is no array, it looks into a member such as data, at most maxUnwrap
// levels deep. If several arrays are possible, it returns the first, and sure is false. sure is also false if the only
// array has another name and is beside members that are no metadata.
func list(s *Shape, at, resource string, depth int) (pointer string, record *Shape, sure bool) {
	var found []Member
	strange := false
	for _, m := range s.Members {
		switch {
		case m.Kind == Array && (m.Elem == nil || m.Elem.Kind == Object || m.Elem.Kind == Any) && !isMetadata(m.Name):
			found = append(found, m)
		case m.Kind == Object && isWrapper(m.Name):
		case !isMetadata(m.Name):
			strange = true
		}
	}
	telling := slices.DeleteFunc(slices.Clone(found), func(m Member) bool {
		return !isWrapper(m.Name) && schemas.FoldName(m.Name) != schemas.FoldName(resource)
	})
	switch {
	case len(telling) == 1:
		return at + "/" + escaped(telling[0].Name), objectOf(telling[0].Elem), true
	case len(found) == 1:
		return at + "/" + escaped(found[0].Name), objectOf(found[0].Elem), !strange
	case len(found) > 1:
		return at + "/" + escaped(found[0].Name), nil, false
	case depth == maxUnwrap:
		return "", nil, false
	}
	for _, m := range s.Members {
		if m.Kind == Object && isWrapper(m.Name) && m.member("id") == nil {
			return list(m.Shape, at+"/"+escaped(m.Name), resource, depth+1)
		}
	}
	return "", nil, false
}

// one returns the place and shape of the only record of an answer.
func one(s *Shape) (pointer string, record *Shape) {
	var inner *Member
	for i, m := range s.Members {
		switch {
		case m.Kind == Object && (schemas.FoldName(m.Name) == "data" || schemas.FoldName(m.Name) == "result") && inner == nil:
			inner = &s.Members[i]
		case !isMetadata(m.Name):
			return "", s
		}
	}
	if inner == nil {
		return "", s
	}
	return "/" + escaped(inner.Name), inner.Shape
}

func escaped(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// key returns the column that identifies records: id, or else the member with the name of the placeholder in the path
// of a single record, such as number in /invoices/{number}.
func key(record *Shape, detail string) []string {
	if record == nil {
		return nil
	}
	for _, name := range []string{"id", detail} {
		if m := record.member(name); m != nil && m.Kind != Object && m.Kind != Array {
			return []string{schemas.Column(name)}
		}
	}
	return nil
}

// Limits of the declarations of one stream.
const (
	maxColumns = 400
	maxDepth   = 3 // deeper objects are JSON text
)

// columns returns the types and the meanings of a record's columns, by their paths. If types is false, it returns no
// types.
func columns(record *Shape, types bool) (declared, meanings map[string]string) {
	c := &columnReader{types: types, declared: map[string]string{}, meanings: map[string]string{}}
	if record != nil {
		c.object(record, "", 1)
	}
	return c.declared, c.meanings
}

type columnReader struct {
	types    bool
	declared map[string]string
	meanings map[string]string
	n        int
}

func (c *columnReader) object(s *Shape, at string, depth int) {
	for _, m := range s.Members {
		if c.n++; c.n > maxColumns {
			return
		}
		source := at + "/" + escaped(m.Name)
		path := schemas.Column(source)
		if text := meaning(m.Shape); text != "" {
			c.meanings[path] = text
		}
		switch inner := objectOf(m.Elem); {
		case m.Kind == Object && len(m.Members) > 0 && depth < maxDepth:
			c.object(m.Shape, source, depth+1)
		case m.Kind == Array && inner != nil && depth < maxDepth:
			c.object(inner, source, depth+1)
		case c.types:
			if t := typeOf(m.Shape); t != "" {
				c.declared[path] = t
			}
		}
	}
}

// textFormats are string formats that only a text column can hold.
var textFormats = []string{"uuid", "email", "idn-email", "uri", "uri-reference", "url", "iri", "hostname", "ipv4", "ipv6", "byte", "binary", "regex", "json-pointer", "color", "phone"}

// typeOf returns the type of a column, or "" if the shape does not determine it. The type of a number depends on the
// digits in the data, and a plain string may hold anything.
func typeOf(s *Shape) string {
	switch s.Kind {
	case Integer:
		return "int64"
	case Boolean:
		return "bool"
	case String:
		switch {
		case s.Format == "date":
			return "date"
		case s.Format == "date-time":
			return "timestamp"
		case slices.Contains(textFormats, s.Format):
			return "text"
		}
	}
	return ""
}

// maxEnum is the number of enumeration values in a comment.
const maxEnum = 20

// meaning returns the text of a column's comment.
func meaning(s *Shape) string {
	text, of := s.Text, s.Enum
	if s.Kind == Array && s.Elem != nil {
		of = s.Elem.Enum
	}
	if len(of) == 0 {
		return text
	}
	more := ""
	if len(of) > maxEnum {
		of, more = of[:maxEnum], ", …"
	}
	values := "One of: " + strings.Join(of, ", ") + more
	if text == "" {
		return sentence(values)
	}
	return sentence(strings.TrimRight(text, ". ") + ". " + values)
}
