package load

import (
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/schemas"
)

// TableDescription returns the description of a table, or "" if there is none.
func TableDescription(s *arrow.Schema) string {
	if s == nil {
		return ""
	}
	md := s.Metadata()
	text, _ := md.GetValue(schemas.DescriptionKey)
	return text
}

func (p *Plan) describe(f *arrow.Field, w arrow.Field) {
	if text := schemas.DescriptionOf(w); text != "" && text != schemas.DescriptionOf(*f) {
		*f = schemas.WithDescription(*f, text)
		p.Describe = append(p.Describe, *f)
	}
}

// Comment returns the database comment on a column or table: the description, followed by the origin in parentheses.
// The origin of a column is the source field that the column holds. An example is "date of birth (/born)".
func Comment(text, origin string) string {
	switch {
	case text == "":
		return origin
	case origin == "":
		return text
	}
	return text + " (" + origin + ")"
}

// OwnComment reports whether penstock may replace a comment: the comment is empty, or [Comment] made it with the same
// origin, whatever its description says. Users wrote all other comments, and penstock does not change
// them. // Invariant 16
func OwnComment(comment, origin string) bool {
	return comment == "" || comment == origin || strings.HasSuffix(comment, " ("+origin+")")
}
