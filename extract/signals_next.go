package extract

import (
	"net/url"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/schemas"
)

func (r *signalReader) nextMember(name string, v jsondoc.Value, at named) {
	switch r.d.Kind(v) {
	case 't':
		r.s.more = yes
		return
	case 'f':
		if r.s.more == unstated {
			r.s.more = no
		}
	}
	t := r.plain(v)
	if isLink(t) {
		r.link(t)
		return
	}
	if r.d.Kind(v) == 'n' || r.words.NoToken(t) {
		t = ""
	}
	if r.words.NamesAddress(name) {
		r.link(t)
		return
	}
	r.take(t, at)
}

// take stores a token, unless a token was stored before. A token that is too long for a request becomes an unread
// signal.
func (r *signalReader) take(t string, at named) {
	s := r.s
	if s.tokened && (s.token != "" || t == "") {
		return
	}
	if len(t) > maxUnreadBytes {
		s.addUnread(unread{pointer: "/" + at.name, value: t, number: -1})
		return
	}
	s.tokened, s.token, s.tokenName = true, t, at
}

// isLink reports whether a text is a URL, a path, or a query. Only the parameters of a link are sent, never the link.
func isLink(t string) bool {
	if strings.Contains(t, "://") || strings.HasPrefix(t, "/") && !strings.ContainsAny(t, " ") && (strings.Contains(t, "?") || strings.Count(t, "/") > 1) || strings.HasPrefix(t, "?") {
		return true
	}
	name, rest, ok := strings.Cut(t, "?")
	if ok && !strings.ContainsAny(name, " ") && strings.Contains(rest, "=") {
		return true
	}
	name, value, ok := strings.Cut(t, "=")
	if !ok || value == "" || strings.ContainsAny(t, " \t{") {
		return false
	}
	words := schemas.Paging()
	return slices.ContainsFunc([]string{schemas.ParamPage, schemas.ParamOffset, schemas.ParamToken, schemas.ParamSince, schemas.ParamSize}, func(f string) bool { return words.Parameter(f, name) })
}

// link stores the parameters of a next link. It ignores scheme, host and path: behind a proxy they are often wrong,
// and they may name another host. // Invariant 10
func (r *signalReader) link(t string) {
	s := r.s
	if s.next != nil {
		return
	}
	s.linked = true
	if len(t) > maxUnreadBytes {
		s.addUnread(unread{pointer: "next link", value: t, number: -1})
		return
	}
	s.query(t)
	s.opaque = t != "" && s.next == nil
}

func (s *signals) query(link string) {
	_, q, ok := strings.Cut(link, "?")
	if !ok && !strings.Contains(link, "/") {
		q, ok = link, true
	}
	if !ok {
		return
	}
	q, _, _ = strings.Cut(q, "#")
	if values, err := url.ParseQuery(q); err == nil && len(values) > 0 {
		s.next = values
	}
}
