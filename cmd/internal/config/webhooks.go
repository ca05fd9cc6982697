package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/cmd/internal/signature"
)

// Webhooks is how deliveries of a source are verified.
type Webhooks struct {
	At      Pos
	Schemes []signature.Scheme // explicit ones; none: to be learned
	Keys    []signature.Key    // at least one

	Header    string // that carries the signature, of a scheme that names no other
	PublicURL string // of this endpoint as the sender calls it, ditto; "" where nobody needs it

	// Refresh are the streams that are read again when a delivery comes that is not
	// verified, once a minute at most; none unless `unverified: hint` says so.
	Refresh []string

	header bool // was given
}

// DefaultSignatureHeader carries the signature unless a file says otherwise.
const DefaultSignatureHeader = "Service-Signature"

// learn is the scheme of a source whose sender has yet to be found out.
const learn = "learn"

// ownHeaders are those of presets whose senders agree on one. They are read
// beside the default header, unless the file names the header.
var ownHeaders = map[string]string{"standard": "Webhook-Signature", "slack": "X-Slack-Signature"}

func (r *reader) webhooks(n ast.Node, what string) *Webhooks {
	w := &Webhooks{At: posOf(n), Header: DefaultSignatureHeader}
	later := map[string]ast.Node{}
	keep := func(key string) func(ast.Node) { return func(n ast.Node) { later[key] = n } }
	ok := r.mapping(n, what, fields{
		"secret": keep("secret"), "secrets": keep("secrets"), "scheme": keep("scheme"), "schemes": keep("schemes"),
		"header": func(n ast.Node) {
			if s, ok := r.text(n, what+" header"); ok {
				w.Header, w.header = s.value, true
			}
		},
		"unverified": keep("unverified"), "refresh": keep("refresh"),
		"public_url": func(n ast.Node) {
			if s, ok := r.text(n, what+" public_url"); ok {
				w.PublicURL = s.value
			}
		},
	})
	for _, pair := range [][2]string{{"secret", "secrets"}, {"scheme", "schemes"}} {
		if later[pair[0]] != nil && later[pair[1]] != nil {
			r.fault(posOf(later[pair[1]]), "%s has %s and %s; keep one", what, pair[0], pair[1])
			delete(later, pair[1])
		}
	}
	if n := later["scheme"]; n != nil {
		w.Schemes = r.scheme(n, w, what+" scheme", 0)
	}
	if n := later["schemes"]; n != nil {
		w.Schemes = r.schemes(n, w, what+" schemes")
	}
	r.hints(w, later, what)
	places := r.webhookKeys(w, later, what)
	if ok {
		r.checkWebhooks(w, places, what)
	}
	return w
}

// hints reads what deliveries may do that are not verified. They say nothing, so
// that the streams they have read must be listed.
func (r *reader) hints(w *Webhooks, later map[string]ast.Node, what string) {
	by, streams := later["unverified"], later["refresh"]
	hint := by != nil && r.choice(by, what+" unverified", "ignore", "hint") == "hint"
	if streams != nil {
		for _, s := range r.texts(streams, what+" refresh") {
			w.Refresh = append(w.Refresh, s.value)
		}
	}
	switch {
	case hint && len(w.Refresh) == 0:
		r.fault(posOf(by), "%s unverified: hint wants the streams that may be read again: refresh: [v2.contacts]", what)
	case !hint && streams != nil:
		r.fault(posOf(streams), "%s refresh is of no use without unverified: hint", what)
	}
}

// schemes reads a list of them, each under a name of its own.
func (r *reader) schemes(n ast.Node, w *Webhooks, what string) []signature.Scheme {
	var all []signature.Scheme
	for i, n := range r.list(n, what) {
		of := r.scheme(n, w, what, i)
		if of == nil && len(r.faults) == 0 {
			r.fault(posOf(n), "%s: %s stands alone, as `scheme: %s`", what, learn, learn)
		}
		all = append(all, of...)
	}
	return all
}

// scheme reads a preset or a block; nothing of the word learn. place tells the
// schemes of a list apart.
func (r *reader) scheme(n ast.Node, w *Webhooks, what string, place int) []signature.Scheme {
	if _, block := r.resolve(n).(ast.MapNode); block {
		return []signature.Scheme{r.block(n, w, what, place)}
	}
	name := r.choice(n, what, append(signature.Presets(), learn)...)
	if name == learn || name == "" {
		return nil
	}
	s, _ := signature.Preset(name, w.Header)
	all := []signature.Scheme{s}
	if own := ownHeaders[name]; own != "" && !w.header {
		s.Header = own
		all = append(all, s)
	}
	return all
}

// webhookKeys reads what deliveries are verified with, and says where each
// stands.
func (r *reader) webhookKeys(w *Webhooks, later map[string]ast.Node, what string) []Pos {
	var places []Pos
	if n := later["secret"]; n != nil {
		w.Keys = append(w.Keys, signature.Key{Secret: r.secret(n, what+" secret"), Label: "1"})
		places = append(places, posOf(n))
	}
	if n := later["secrets"]; n != nil {
		for i, n := range r.list(n, what+" secrets") {
			k := r.webhookKey(n, what+" secrets", i)
			for _, other := range w.Keys {
				if other.Label == k.Label {
					r.fault(posOf(n), "%s secrets: label %q stands twice", what, k.Label)
				}
			}
			w.Keys = append(w.Keys, k)
			places = append(places, posOf(n))
		}
	}
	return places
}

// webhookKey reads one of several secrets or public keys.
func (r *reader) webhookKey(n ast.Node, what string, i int) signature.Key {
	k := signature.Key{Label: fmt.Sprint(i + 1)}
	given := 0
	ok := r.mapping(n, what, fields{
		"secret": func(n ast.Node) { given++; k.Secret = r.secret(n, what+" secret") },
		"public_key": func(n ast.Node) {
			given++
			if s, ok := r.text(n, what+" public_key"); ok {
				k.PublicKey = s.value
			}
		},
		"label": func(n ast.Node) { k.Label = r.label(n, what+" label") },
		"not_after": func(n ast.Node) {
			s, ok := r.text(n, what+" not_after")
			at, err := time.Parse(time.RFC3339, s.value)
			if ok && err != nil {
				r.fault(s.at, "%s not_after %q: want a time with its zone, such as 2026-11-30T00:00:00Z", what, s.raw)
			}
			k.NotAfter = at
		},
	})
	if ok && given != 1 {
		r.fault(posOf(n), "%s: want a secret or a public_key", what)
	}
	return k
}

// label reads a name that metrics and logs show.
func (r *reader) label(n ast.Node, what string) string {
	s, ok := r.text(n, what)
	const good = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
	if ok && (len(s.value) > 63 || strings.Trim(s.value, good) != "") {
		r.fault(s.at, "%s %q: want letters, digits, dots, - and _", what, s.raw)
		return ""
	}
	return s.value
}

// checkWebhooks holds keys against the schemes that use them: one that could
// verify nothing is better known now than with the first delivery.
func (r *reader) checkWebhooks(w *Webhooks, places []Pos, what string) {
	before := len(r.faults)
	if len(w.Keys) == 0 {
		r.fault(w.At, "%s has no secret", what)
	}
	for _, s := range w.Schemes {
		if len(s.Faults()) > 0 {
			continue // told where the scheme stands
		}
		served := 0
		for i, k := range w.Keys {
			if k.Secret == "" && k.PublicKey == "" {
				served++ // a fault already
				continue
			}
			if !k.Serves(s) {
				continue
			}
			served++
			if k.Secret == unread {
				continue // its form is not known
			}
			if err := k.Check(s); err != nil {
				r.fault(places[i], "%s: secret %s %v, which scheme %s wants", what, k.Label, err, s.Name)
			}
		}
		if served == 0 && len(r.faults) == before {
			r.fault(w.At, "%s has no key for scheme %s: a MAC wants a secret, %s, %s and %s a public_key",
				what, s.Name, signature.Ed25519, signature.ECDSAP256, signature.RSASHA256)
		}
	}
}

// unread faults a source whose webhooks no pipeline reads: its events would be
// kept for ever, in the room that those of all sources share.
func (r *reader) unread(c *Config) {
	for _, s := range c.Sources {
		read := func(p Pipeline) bool {
			return p.Reads(s.Name)
		}
		if s.Webhooks != nil && !slices.ContainsFunc(c.Pipelines, read) {
			r.fault(s.Webhooks.At, "source %s receives webhooks, and no pipeline reads it", s.Name)
		}
	}
}
