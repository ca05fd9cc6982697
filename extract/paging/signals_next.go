package paging

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
		r.s.More = Yes
		return
	case 'f':
		if r.s.More == unstated {
			r.s.More = No
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
	if s.Tokened && (s.Token != "" || t == "") {
		return
	}
	if len(t) > maxUnreadBytes {
		s.addUnread(Unread{Pointer: "/" + at.name, Value: t, Number: -1})
		return
	}
	s.Tokened, s.Token, s.tokenName = true, t, at
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
	if s.Next != nil {
		return
	}
	s.Linked = true
	if len(t) > maxUnreadBytes {
		s.addUnread(Unread{Pointer: "next link", Value: t, Number: -1})
		return
	}
	s.query(t)
	s.opaque = t != "" && s.Next == nil
}

func (s *Signals) query(link string) {
	_, q, ok := strings.Cut(link, "?")
	if !ok && !strings.Contains(link, "/") {
		q, ok = link, true
	}
	if !ok {
		return
	}
	q, _, _ = strings.Cut(q, "#")
	if values, err := url.ParseQuery(q); err == nil && len(values) > 0 {
		s.Next = values
	}
}
