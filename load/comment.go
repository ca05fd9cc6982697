package load

import (
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// About is what the rows of a table are, in the words of whoever has described
// them; "" where nobody has.
func About(s *arrow.Schema) string {
	if s == nil {
		return ""
	}
	md := s.Metadata()
	text, _ := md.GetValue(schemas.DescriptionKey)
	return text
}

// tell takes over what the column w means into f, if that is something else.
func (p *Plan) tell(f *arrow.Field, w arrow.Field) {
	if text := schemas.Described(w); text != "" && text != schemas.Described(*f) {
		*f = schemas.Describe(*f, text)
		p.Tell = append(p.Tell, *f)
	}
}

// Comment is what a database is told of a column, or of a table: what it means,
// and behind that where it comes from.
func Comment(text, from string) string {
	switch {
	case text == "":
		return from
	case from == "":
		return text
	}
	return text + " (" + from + ")"
}

// OwnComment reports whether a comment is one of [Comment]'s, of whatever
// meaning, or none at all. Any other is somebody's, and stays. // Invariant 16
func OwnComment(comment, from string) bool {
	return comment == "" || comment == from || strings.HasSuffix(comment, " ("+from+")")
}
