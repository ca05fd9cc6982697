package extract

import (
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

func (r *signalReader) total(v value, pointer string) {
	if _, err := r.d.integer(v); err != nil && r.d.kind(v) == '"' && strings.ContainsAny(r.d.text(v), "0123456789") {
		r.s.addUnread(unread{pointer: pointer, value: r.plain(v), number: -1})
		return
	}
	r.number(v, &r.s.total)
}

func (r *signalReader) more(v value, pointer string) {
	before := r.s.more
	r.flag(v, yes, no)
	t := r.plain(v)
	i, err := r.d.integer(v)
	switch {
	case err == nil && i > 1:
		r.s.more = yes
	case r.d.kind(v) != '"' || t == "" || r.s.more != before || r.words.NoToken(t):
	case isLink(t):
		r.link(t)
	case parseFlag(t) == unstated:
		r.s.addUnread(unread{pointer: pointer, value: t, number: -1})
	}
}

func (r *signalReader) flag(v value, ifTrue, ifFalse tristate) {
	switch parseFlag(r.plain(v)) {
	case yes:
		r.s.more = ifTrue
	case no:
		r.s.more = ifFalse
	}
}

func (r *signalReader) completeness(role schemas.Role, name string, v value, pointer string) {
	raw := strings.ToLower(strings.Trim(string(r.d.raw(v)), `"`))
	number, err := strconv.ParseInt(raw, 10, 64)
	incomplete := false
	switch role {
	case schemas.RolePartial:
		incomplete = raw == "true" || raw == "yes" || err == nil && number > 0
	case schemas.RoleComplete:
		incomplete = raw == "false" || raw == "no"
	case schemas.RoleState:
		incomplete = r.d.kind(v) == '"' && r.words.Incomplete(raw)
	case schemas.RoleFaults:
		incomplete = r.d.kind(v) == '"' && raw != "" && err != nil || raw == "true" || err == nil && number > 0
	}
	if incomplete {
		r.s.addIncomplete(pointer + ": " + short(r.plain(v)))
	}
}

func (r *signalReader) number(v value, to *int64) {
	if i, err := r.d.integer(v); err == nil && i >= 0 {
		*to = i
	}
}

func (r *signalReader) named(v value, to *int64, name *named, at named) {
	if i, err := r.d.integer(v); err == nil && i >= 0 {
		*to, *name = i, at
	}
}

func digitsOnly(t string) bool { return strings.Trim(t, "0123456789") == "" }

func parseFlag(text string) tristate {
	switch strings.ToLower(text) {
	case "true", "1", "yes", "y":
		return yes
	case "false", "0", "no", "n":
		return no
	}
	return unstated
}
