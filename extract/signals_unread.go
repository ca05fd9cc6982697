package extract

import (
	"regexp"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// doubt keeps a member that has no role, or none that is sure where it is, if it
// can speak of more records.
func (r *signalReader) doubt(role schemas.Role, name string, v value, pointer string, in scope) {
	switch role {
	case schemas.RolePartial, schemas.RoleComplete, schemas.RoleState, schemas.RoleFaults:
		r.completeness(role, name, v, pointer)
		return
	case schemas.RoleTotal, schemas.RoleMore, schemas.RoleRemaining, schemas.RoleNext, "":
		if in.ignored {
			return
		}
	case schemas.RolePages:
		if i, err := r.d.integer(v); err == nil && i > 1 && !in.ignored {
			r.s.unread = append(r.s.unread, unread{pointer, r.plain(v), -1})
		}
		return
	case schemas.RoleToken:
		if !in.trusted && !in.ignored && r.d.kind(v) == '"' && !r.d.void(v) && !noToken(r.d.text(v)) {
			r.s.unread = append(r.s.unread, unread{pointer, r.plain(v), -1})
		}
		return
	default:
		return
	}
	number := int64(-1)
	if i, err := r.d.integer(v); err == nil && r.d.kind(v) != '"' {
		number = i
	}
	switch raw := string(r.d.raw(v)); {
	case number >= 0:
		if continues(name) && number > 0 && !idLike(name) {
			number = -1 // it may be the number of a page
		} else if number <= int64(r.n) || idLike(name) || epochLike(number) {
			return
		}
	case role == schemas.RoleMore:
		if raw != "true" {
			return
		}
	case role != schemas.RoleNext && !continues(name), r.d.void(v), raw == "false", raw == "true" && role != schemas.RoleMore:
		return
	}
	r.s.unread = append(r.s.unread, unread{pointer, r.plain(v), number})
}

// continues reports whether a name that nobody knows speaks of continuation.
func continues(name string) bool {
	word := schemas.FoldName(name)
	if strings.Contains(word, "prev") || strings.HasPrefix(word, "sync") || strings.Contains(word, "auth") || strings.Contains(word, "csrf") {
		return false
	}
	for _, part := range []string{"next", "more", "continu", "cursor", "marker", "pagetoken", "scroll", "remaining", "following", "resume"} {
		if strings.Contains(word, part) {
			return true
		}
	}
	return false
}

// idLike reports whether a number under this name says who something is, when it
// was, or what it is worth.
func idLike(name string) bool {
	parts := strings.FieldsFunc(camel.ReplaceAllString(name, "${1}_${2}"), func(c rune) bool { return c == '_' || c == '-' || c == '.' || c == ' ' })
	return len(parts) > 0 && slices.Contains(idWords, strings.ToLower(parts[len(parts)-1])) ||
		slices.ContainsFunc(parts, func(p string) bool { return slices.Contains(worthWords, strings.ToLower(p)) })
}

var (
	camel      = regexp.MustCompile("([a-z0-9])([A-Z])")
	idWords    = []string{"id", "at", "time", "date", "ms", "version", "bytes", "seconds", "code", "year", "timestamp", "millis", "duration"}
	worthWords = []string{"amount", "value", "price", "sum", "revenue", "balance", "turnover", "cost", "profit"}
)

// epochLike reports whether a number is a moment after 2001, in seconds or parts
// of them.
func epochLike(n int64) bool { return n >= 1_000_000_000 }
