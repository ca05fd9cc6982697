package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/penstock-data/penstock/cmd/internal/signature"
)

// Webhooks configures how deliveries of a source are verified.
type Webhooks struct {
	At      Pos
	Schemes []signature.Scheme // explicit schemes; none: to be learned
	Keys    []signature.Key    // the secrets and public keys; at least one

	Header    string // default header with the signature
	PublicURL string // URL of this endpoint as the sender calls it, for schemes that sign the URL; "" if not needed

	// Refresh has the streams that are read again after an unverified delivery. It is empty unless the file has
	// `unverified: hint`.
	Refresh []string

	header bool // the file sets Header
}

// DefaultSignatureHeader is the default header with the signature.
const DefaultSignatureHeader = "Service-Signature"

// learn is the word for a scheme that is not known yet.
const learn = "learn"

// ownHeaders are the usual signature headers of some presets. Unless the file sets a header, a signature is accepted
// in this header and in the default header.
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

// hints reads `unverified` and `refresh`. The file must name the streams to read again: an unverified delivery may be
// forged, so the delivery must not choose the streams.
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
		r.fault(posOf(by), "%s unverified: hint needs the streams that may be read again: refresh: [v2.contacts]", what)
	case !hint && streams != nil:
		r.fault(posOf(streams), "%s refresh has no effect without unverified: hint", what)
	}
}

func (r *reader) schemes(n ast.Node, w *Webhooks, what string) []signature.Scheme {
	var all []signature.Scheme
	for i, n := range r.list(n, what) {
		of := r.scheme(n, w, what, i)
		if of == nil && len(r.faults) == 0 {
			r.fault(posOf(n), "%s: %s cannot be in a list; want `scheme: %s`", what, learn, learn)
		}
		all = append(all, of...)
	}
	return all
}

// scheme reads one scheme: the name of a preset, a mapping, or the word learn, for which it returns nil. A preset with
// an entry in [ownHeaders] becomes two schemes, one for each header. The index makes the names of mappings in a list
// unique.
func (r *reader) scheme(n ast.Node, w *Webhooks, what string, index int) []signature.Scheme {
	if _, block := r.resolve(n).(ast.MapNode); block {
		return []signature.Scheme{r.block(n, w, what, index)}
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

// webhookKeys reads the keys of w, and returns their positions in the file.
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
					r.fault(posOf(n), "%s secrets: label %q occurs twice", what, k.Label)
				}
			}
			w.Keys = append(w.Keys, k)
			places = append(places, posOf(n))
		}
	}
	return places
}

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

func (r *reader) label(n ast.Node, what string) string {
	s, ok := r.text(n, what)
	const good = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
	if ok && (len(s.value) > 63 || strings.Trim(s.value, good) != "") {
		r.fault(s.at, "%s %q: want letters, digits, dots, - and _", what, s.raw)
		return ""
	}
	return s.value
}

// checkWebhooks reports keys that no scheme can use, and schemes without a key. Otherwise the first delivery would
// show the error.
func (r *reader) checkWebhooks(w *Webhooks, places []Pos, what string) {
	before := len(r.faults)
	if len(w.Keys) == 0 {
		r.fault(w.At, "%s has no secret", what)
	}
	for _, s := range w.Schemes {
		if len(s.Faults()) > 0 {
			continue // reported at the scheme
		}
		served := 0
		for i, k := range w.Keys {
			if k.Secret == "" && k.PublicKey == "" {
				served++ // already reported
				continue
			}
			if !k.Serves(s) {
				continue
			}
			served++
			if k.Secret == unread {
				continue // its form is unknown
			}
			if err := k.Check(s); err != nil {
				r.fault(places[i], "%s: secret %s %v, which scheme %s wants", what, k.Label, err, s.Name)
			}
		}
		if served == 0 && len(r.faults) == before {
			r.fault(w.At, "%s has no key for scheme %s: %s, %s and %s need a public_key, other algorithms a secret",
				what, s.Name, signature.Ed25519, signature.ECDSAP256, signature.RSASHA256)
		}
	}
}

// checkWebhooksRead reports a source that receives webhooks but is read by no pipeline. Its events would never be
// applied, and would fill the inbox that all sources share.
func (r *reader) checkWebhooksRead(c *Config) {
	for _, s := range c.Sources {
		read := func(p Pipeline) bool {
			return p.Reads(s.Name)
		}
		if s.Webhooks != nil && !slices.ContainsFunc(c.Pipelines, read) {
			r.fault(s.Webhooks.At, "source %s receives webhooks, but no pipeline reads it", s.Name)
		}
	}
}
