package imports

import (
	"slices"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// layout is where an answer has its records, and what one looks like.
type layout struct {
	records []string // none where it is left to detection
	record  *Shape   // nil where nothing is said
	class   schemas.Class
}

// layoutOf reads an answer. Where more than one list could be the records, it
// takes none of them: a stated place outranks a detected one.
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

// maxUnwrap is how deep in an answer its records may stand.
const maxUnwrap = 3

// list finds the one array of objects in s, or the one with a telling name.
// Without being sure it still says where a candidate is.
func list(s *Shape, at, resource string, depth int) (pointer string, record *Shape, sure bool) {
	var found []Member
	strange := false
	for _, m := range s.Members {
		switch {
		case m.Kind == Array && (m.Elem == nil || m.Elem.Kind == Object || m.Elem.Kind == Any) && !beside(m.Name):
			found = append(found, m)
		case m.Kind == Object && wraps(m.Name):
		case !beside(m.Name):
			strange = true
		}
	}
	telling := slices.DeleteFunc(slices.Clone(found), func(m Member) bool {
		return !wraps(m.Name) && schemas.FoldName(m.Name) != schemas.FoldName(resource)
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
		if m.Kind == Object && wraps(m.Name) && m.member("id") == nil {
			return list(m.Shape, at+"/"+escaped(m.Name), resource, depth+1)
		}
	}
	return "", nil, false
}

// one is where the one record of an answer stands.
func one(s *Shape) (pointer string, record *Shape) {
	var inner *Member
	for i, m := range s.Members {
		switch {
		case m.Kind == Object && (schemas.FoldName(m.Name) == "data" || schemas.FoldName(m.Name) == "result") && inner == nil:
			inner = &s.Members[i]
		case !beside(m.Name):
			return "", s
		}
	}
	if inner == nil {
		return "", s
	}
	return "/" + escaped(inner.Name), inner.Shape
}

func escaped(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// key is the member that tells records apart: the one that the path of a
// single record names, else id.
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

// Limits of what one stream declares.
const (
	maxColumns = 400
	maxDepth   = 3 // deeper objects are JSON text
)

// columns writes types and meanings of a record's columns down, by their paths.
func columns(record *Shape, types bool) (declared, told map[string]string) {
	c := &columnist{types: types, declared: map[string]string{}, told: map[string]string{}}
	if record != nil {
		c.object(record, "", 1)
	}
	return c.declared, c.told
}

type columnist struct {
	types    bool
	declared map[string]string
	told     map[string]string
	n        int
}

func (c *columnist) object(s *Shape, at string, depth int) {
	for _, m := range s.Members {
		if c.n++; c.n > maxColumns {
			return
		}
		source := at + "/" + escaped(m.Name)
		path := schemas.Column(source)
		if text := meaning(m.Shape); text != "" {
			c.told[path] = text
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

// textFormats are formats of strings that no other type could be meant by.
var textFormats = []string{"uuid", "email", "idn-email", "uri", "uri-reference", "url", "iri", "hostname", "ipv4", "ipv6", "byte", "binary", "regex", "json-pointer", "color", "phone"}

// typeOf is the type of a column, where the shape leaves no doubt. A number's
// digits are seen in the data; a plain string may hold anything.
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

// maxEnum is how many values of an enumeration a comment lists.
const maxEnum = 20

// meaning is what a column's comment says.
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
