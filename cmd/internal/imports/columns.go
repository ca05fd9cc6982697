package imports

import (
	"slices"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// layout says where in an answer the records are, and what one record looks like.
type layout struct {
	records []string // JSON pointers to the lists of records; nil: runs detect the place
	record  *Shape   // nil: unknown
	class   schemas.Class
}

// layoutOf returns the layout of an operation's answer. If several lists could be the records, layoutOf states no
// place, and runs detect it. A wrong place would have priority over the place that runs detect.
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

// list finds the array of records in the object s, which is at pointerSoFar in the answer. It takes the first of these
// that exists:
//
//  1. the only array with the name of the resource, or with a usual name of lists, such as data;
//  2. the only array that may have objects. Then `sure` is false if s also has members that are not metadata;
//  3. the first of several arrays. Then `sure` is false;
//  4. if s has no array, the array in a member such as data, at most maxUnwrap levels deep.
func list(s *Shape, pointerSoFar, resource string, depth int) (pointer string, record *Shape, sure bool) {
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
		return pointerSoFar + "/" + escaped(telling[0].Name), objectOf(telling[0].Elem), true
	case len(found) == 1:
		return pointerSoFar + "/" + escaped(found[0].Name), objectOf(found[0].Elem), !strange
	case len(found) > 1:
		return pointerSoFar + "/" + escaped(found[0].Name), nil, false
	case depth == maxUnwrap:
		return "", nil, false
	}
	for _, m := range s.Members {
		if m.Kind == Object && isWrapper(m.Name) && m.member("id") == nil {
			return list(m.Shape, pointerSoFar+"/"+escaped(m.Name), resource, depth+1)
		}
	}
	return "", nil, false
}

// one() returns the place and the shape of the record in an answer that is no list.
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

// key returns the column that identifies records: `id`, or else the column whose name is in the argument `detail`. This
// name is the placeholder in the path of a single record, such as {number} in /invoices/{number}.
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

// Limits for what the import declares about one stream.
const (
	maxColumns = 400
	maxDepth   = 3 // deeper objects are JSON text
)

// columns returns the types and the descriptions of a record's columns, by their paths. If the argument `types` is
// false, it returns no types.
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

// textFormats are formats of strings. A column with such strings must have the type text.
var textFormats = []string{"uuid", "email", "idn-email", "uri", "uri-reference", "url", "iri", "hostname", "ipv4", "ipv6", "byte", "binary", "regex", "json-pointer", "color", "phone"}

// typeOf returns the type of a column, or "" if the document does not determine it. The type of a number depends
// on the digits in the data. A string without a format may hold values of any type, such as numbers.
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

// maxEnum is how many allowed values the comment of a column lists.
const maxEnum = 20

// meaning returns the comment of a column: its description and its allowed values.
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
