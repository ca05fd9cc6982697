package config

import (
	"fmt"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/signature"
)

// Webhooks says how deliveries of a source are verified.
type Webhooks struct {
	At      Pos
	Schemes []signature.Scheme // schemes of the file; if there are none, the scheme must be learned
	Keys    []signature.Key    // the secrets and public keys; at least one

	Header    string // name of the header with the signature, unless a scheme names another header
	PublicURL string // URL of this endpoint as the sender calls it, for schemes that sign the URL; "" if not needed

	// Refresh lists the streams that are read again after an unverified delivery. If the file does not have `unverified:
	// hint`, Refresh is empty.
	Refresh []string

	header bool // the file sets Header
}

// DefaultSignatureHeader is the default header with the signature.
const DefaultSignatureHeader = "Service-Signature"

// learn is the value of `scheme` that says that the scheme is not known yet.
const learn = "learn"

// ownHeaders has the usual signature headers of some presets. If the file sets no header, a signature is accepted in
// the header of its preset, and also in the default header.
var ownHeaders = map[string]string{"standard": "Webhook-Signature", "slack": "X-Slack-Signature"}

func readWebhooks(v value) *Webhooks {
	w := &Webhooks{At: v.pos(), Header: DefaultSignatureHeader}
	var one, several, scheme, schemes, unverified, refresh value
	ok := v.mapping(fields{
		"secret":  keep(&one),
		"secrets": keep(&several),
		"scheme":  keep(&scheme),
		"schemes": keep(&schemes),
		"header": func(v value) {
			if s, ok := v.text(); ok {
				w.Header, w.header = s.value, true
			}
		},
		"unverified": keep(&unverified),
		"refresh":    keep(&refresh),
		"public_url": text(&w.PublicURL),
	})
	if one.given() && several.given() {
		v.fault(several.pos(), "%s has both `secret` and `secrets`; keep one", v.what)
		several = value{}
	}
	if scheme.given() && schemes.given() {
		v.fault(schemes.pos(), "%s has both `scheme` and `schemes`; keep one", v.what)
		schemes = value{}
	}
	if scheme.given() {
		w.Schemes = w.readScheme(scheme, 0)
	}
	if schemes.given() {
		w.Schemes = w.readSchemes(schemes)
	}
	w.readHints(v, unverified, refresh)
	places := w.readKeys(one, several)
	if ok {
		w.check(v, places)
	}
	return w
}

// readHints reads `unverified` and `refresh`. The file must name the streams that are read again. The delivery must not
// choose them, because an unverified delivery may be forged.
func (w *Webhooks) readHints(v, unverified, refresh value) {
	hint := unverified.given() && unverified.choice("ignore", "hint") == "hint"
	if refresh.given() {
		w.Refresh = refresh.words()
	}
	switch {
	case hint && len(w.Refresh) == 0:
		v.fault(unverified.pos(), "%s: `unverified: hint` needs the streams that may be read again, such as refresh: [v2.contacts]", v.what)
	case !hint && refresh.given():
		v.fault(refresh.pos(), "%s: `refresh` has no effect without `unverified: hint`", v.what)
	}
}

func (w *Webhooks) readSchemes(v value) []signature.Scheme {
	var all []signature.Scheme
	for i, item := range v.list() {
		of := w.readScheme(item, i)
		if of == nil && len(v.r.faults) == 0 {
			v.fault(item.pos(), "%s: %s cannot be in a list; want `scheme: %s`", v.what, learn, learn)
		}
		all = append(all, of...)
	}
	return all
}

// readScheme reads one scheme: the name of a preset, a mapping, or the word learn. For learn, it returns nil. A preset
// with an entry in [ownHeaders] becomes two schemes, one for each header. If the scheme is a mapping, its name contains
// the index, so that the names in a list differ.
func (w *Webhooks) readScheme(v value, index int) []signature.Scheme {
	if v.isMapping() {
		return []signature.Scheme{w.readBlock(v, index)}
	}
	name := v.choice(append(signature.Presets(), learn)...)
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

// readKeys reads the keys of w, and returns their positions in the file.
func (w *Webhooks) readKeys(one, several value) []Pos {
	var places []Pos
	if one.given() {
		w.Keys = append(w.Keys, signature.Key{Secret: secret(one), Label: "1"})
		places = append(places, one.pos())
	}
	if !several.given() {
		return places
	}
	for i, item := range several.list() {
		k := readKey(item, i)
		for _, other := range w.Keys {
			if other.Label == k.Label {
				item.fault(item.pos(), "%s: label %q occurs twice", item.what, k.Label)
			}
		}
		w.Keys = append(w.Keys, k)
		places = append(places, item.pos())
	}
	return places
}

func readKey(v value, i int) signature.Key {
	k := signature.Key{Label: fmt.Sprint(i + 1)}
	given := 0
	ok := v.mapping(fields{
		"secret":     func(v value) { given++; k.Secret = secret(v) },
		"public_key": func(v value) { given++; text(&k.PublicKey)(v) },
		"label":      set(&k.Label, readLabel),
		"not_after":  set(&k.NotAfter, moment),
	})
	if ok && given != 1 {
		v.fault(v.pos(), "%s: want a secret or a public_key", v.what)
	}
	return k
}

func moment(v value) time.Time {
	return converted(v, "a time with its zone, such as 2026-11-30T00:00:00Z", func(s string) (time.Time, bool) {
		at, err := time.Parse(time.RFC3339, s)
		return at, err == nil
	})
}

func readLabel(v value) string {
	const good = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
	return converted(v, "letters, digits, dots, - and _", func(s string) (string, bool) {
		return s, len(s) <= 63 && strings.Trim(s, good) == ""
	})
}

// check reports keys that no scheme can use, and schemes without a key. Otherwise the error would appear only with the
// first delivery.
func (w *Webhooks) check(v value, places []Pos) {
	before := len(v.r.faults)
	if len(w.Keys) == 0 {
		v.fault(w.At, "%s has no secret", v.what)
	}
	for _, s := range w.Schemes {
		if len(s.Faults()) > 0 {
			continue // the error of the scheme was already reported
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
				continue // the command of this key was not run, so its form is unknown
			}
			if err := k.Check(s); err != nil {
				v.fault(places[i], "%s: secret %s %v; scheme %s cannot use it", v.what, k.Label, err, s.Name)
			}
		}
		if served == 0 && len(v.r.faults) == before {
			v.fault(w.At, "%s has no key for scheme %s: %s, %s and %s need a public_key, other algorithms a secret",
				v.what, s.Name, signature.Ed25519, signature.ECDSAP256, signature.RSASHA256)
		}
	}
}
