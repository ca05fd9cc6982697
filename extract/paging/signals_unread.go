package paging

import (
	"maps"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/schemas"
)

// doubt handles a member that has no known role, or is in an object that is perhaps not about paging. If the member may
// announce more records, doubt adds it to the unread signals.
func (r *signalReader) doubt(role schemas.Role, name string, v jsondoc.Value, pointer string, in scope) {
	switch role {
	case schemas.RolePartial, schemas.RoleComplete, schemas.RoleState, schemas.RoleFaults:
		r.completeness(role, name, v, pointer)
		return
	case schemas.RoleTotal, schemas.RoleMore, schemas.RoleRemaining, schemas.RoleNext, "":
		if in.ignored {
			return
		}
	case schemas.RolePages:
		if i, err := r.d.Integer(v); err == nil && i > 1 && !in.ignored {
			r.s.addUnread(Unread{Pointer: pointer, Value: r.plain(v), Number: -1})
		}
		return
	case schemas.RoleToken:
		if !in.trusted && !in.ignored && r.d.Kind(v) == '"' && !r.d.IsEmpty(v) && !r.words.NoToken(r.d.Text(v)) {
			r.s.addUnread(Unread{Pointer: pointer, Value: r.plain(v), Number: -1, name: r.tokenAt(name, v, in)})
		}
		return
	default:
		return
	}
	if r.doubted++; r.doubted > maxDoubted {
		r.s.skipped = true
		return
	}
	if t := r.plain(v); role == "" && r.d.Kind(v) == '"' && r.words.Continues(name) && isPagingLink(t) {
		r.link(t)
		return
	}
	number := int64(-1)
	if i, err := r.d.Integer(v); err == nil && r.d.Kind(v) != '"' {
		number = i
	}
	switch raw := string(r.d.Raw(v)); {
	case number >= 0:
		if r.words.Continues(name) && number > 0 && !r.words.NeverCounts(name) {
			number = -1 // may be a page number
		} else if number <= int64(r.n) || r.words.NeverCounts(name) || epochLike(number) {
			return
		}
	case role == schemas.RoleMore:
		if raw != "true" {
			return
		}
	case role != schemas.RoleNext && !r.words.Continues(name), r.d.IsEmpty(v), raw == "false", raw == "true" && role != schemas.RoleMore:
		return
	}
	r.s.addUnread(Unread{Pointer: pointer, Value: r.plain(v), Number: number, name: r.tokenAt(name, v, in)})
}

// tokenAt returns the name of a text that may be the token of the next page. A number is never taken as a token,
// because it may be a count.
func (r *signalReader) tokenAt(name string, v jsondoc.Value, in scope) named {
	t := r.plain(v)
	switch {
	case r.d.Kind(v) != '"' || t == "" || jsondoc.DigitsOnly(t) || isLink(t) || strings.ContainsAny(t, " \t\n"):
		return named{}
	case in.top:
		return named{name: name}
	}
	return named{in: in.name, name: name}
}

func isPagingLink(t string) bool {
	s := NoSignals
	if !isLink(t) {
		return false
	}
	s.query(t)
	return slices.ContainsFunc(slices.Collect(maps.Keys(s.Next)), leads)
}
