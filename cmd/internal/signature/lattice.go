package signature

import (
	"bytes"
	"iter"
	"net/textproto"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

func canonical(name string) string { return textproto.CanonicalMIMEHeaderKey(name) }

// Limits that keep learning fast for any content of a sample.
const (
	maxPlaces  = 6  // maximum number of places that are tried for the time, and for the id
	maxMembers = 64 // maximum number of members that are read from a body
)

// candidates yields all schemes to try. Of two equivalent schemes, the more likely one comes first.
func (l *learner) candidates() iter.Seq[Scheme] {
	return func(yield func(Scheme) bool) {
		first := &l.samples[0].Delivery
		for _, header := range l.headers {
			value, reason := single(first.Header, header)
			if reason != "" || len(value) > maxHeader {
				continue
			}
			for _, g := range l.grammars(header, value) {
				if !l.contents(Scheme{Header: header, Parse: g.Parse, PublicURL: l.PublicURL}, g, yield) {
					return
				}
			}
		}
	}
}

func (l *learner) contents(s Scheme, g grammar, yield func(Scheme) bool) bool {
	times, ids := l.times(g), l.ids(g)
	for _, p := range proofs(g.sig) {
		if p.Algorithm == HMACSHA1 && !l.AllowWeak {
			continue
		}
		s.Algorithm, s.Encoding, s.AllowWeak = p.Algorithm, p.Encoding, p.Algorithm == HMACSHA1
		for _, content := range templates(g, s.Algorithm.public(), l.PublicURL != "") {
			s.Content = content
			for s := range placed(s, times, ids) {
				for _, e := range keyEncodings(s.Algorithm) {
					s.KeyEncoding = e
					if !yield(s.filled()) {
						return false
					}
				}
			}
		}
	}
	return true
}

func keyEncodings(a Algorithm) []KeyEncoding {
	if a.public() {
		return []KeyEncoding{PEM, KeyHex, WhsecBase64}
	}
	return []KeyEncoding{Text, WhsecBase64, KeyHex, TextWithoutPrefix}
}

// The function placed() yields s with each possible place of the time and of the id. If the content has no time, the
// place of the time is removed, and the time's key in the signature header is ignored. The same applies to the id.
func placed(s Scheme, times []Timestamp, ids []From) iter.Seq[Scheme] {
	withTS, withID := uses(s.Content, TS), uses(s.Content, ID)
	if !withTS {
		times = []Timestamp{{}}
	}
	if !withID {
		ids = []From{""}
	}
	return func(yield func(Scheme) bool) {
		for _, t := range times {
			for _, id := range ids {
				s := s
				s.Timestamp, s.EventID = t, id
				s.Parse.Ignore = slices.Clone(s.Parse.Ignore)
				drop := func(key *string, used bool) {
					if *key != "" && !used {
						s.Parse.Ignore = append(s.Parse.Ignore, *key)
						*key = ""
					}
				}
				if s.Parse.Style == KV {
					drop(&s.Parse.TS, t.From == Parsed)
					drop(&s.Parse.ID, id == Parsed)
				}
				if !yield(s) {
					return
				}
			}
		}
	}
}

// templates returns the contents that senders are known to sign.
func templates(g grammar, public, address bool) [][]Token {
	body, ts, id := Token{Kind: Body}, Token{Kind: TS}, Token{Kind: ID}
	method, path, url := Token{Kind: Method}, Token{Kind: Path}, Token{Kind: URL}
	hexed := Token{Kind: SHA256Hex, Of: []Token{body}}
	of := func(t ...any) []Token {
		var all []Token
		for _, v := range t {
			if text, ok := v.(string); ok {
				v = Literal(text)
			}
			all = append(all, v.(Token))
		}
		return all
	}
	all := [][]Token{
		of(body), of(ts, ".", body), of(id, ".", ts, ".", body), of(ts, body), of(ts, ":", body), of(ts, "\n", body),
		of(body, ts), of(body, ".", ts), of(body, ":", ts), of(ts, ".", id, ".", body), of(id, ts, body), of(ts, id, body),
		of(id, ":", ts, ":", body), of(id, ".", body), of(id, body), of(hexed), of(ts, ".", hexed),
		of(method, path, body), of(path, body), of(ts, method, path, body), of(method, path, ts, body),
	}
	if g.word != "" {
		all = append(all, of(g.word+":", ts, ":", body), of(g.word+".", ts, ".", body))
	}
	if address {
		all = append(all, of(url, body), of(method, url, body), of(method, url, body, ts), of(url, body, ts), of(ts, method, url, body))
	}
	if public {
		for _, inner := range [][]Token{of(body), of(ts, ".", body), of(ts, body)} {
			all = append(all, of(Token{Kind: SHA256Raw, Of: inner}))
		}
	}
	return all
}

type proof struct {
	Algorithm
	Encoding
}

func proofs(sig string) []proof {
	var all []proof
	for _, e := range Encodings() {
		raw, ok := e.appendDecoded(nil, sig)
		if !ok {
			continue
		}
		for _, a := range Algorithms() {
			if least, most := a.lengths(); len(raw) >= least && len(raw) <= most {
				all = append(all, proof{a, e})
			}
		}
	}
	return all
}

func (l *learner) times(g grammar) []Timestamp {
	d := &l.samples[0].Delivery
	var all []Timestamp
	add := func(f From, text string) {
		if u := unitOf(text); u != "" && len(all) < maxPlaces {
			all = append(all, Timestamp{From: f, Unit: u})
		}
	}
	add(Parsed, g.ts)
	for _, name := range shared(l.samples) {
		if name != g.header {
			add(FromHeader(name), d.Header[name][0])
		}
	}
	for name, text := range members(d.Body) {
		add(FromJSON("/"+escaped(name)), text)
	}
	return all
}

func (l *learner) ids(g grammar) []From {
	var all []From
	if g.Parse.ID != "" || strings.Contains(g.Parse.Template, "{id}") {
		all = append(all, Parsed)
	}
	all = append(all, l.idHeaders()...)
	for name := range members(l.samples[0].Body) {
		if strings.HasSuffix(strings.ToLower(name), "id") {
			all = append(all, FromJSON("/"+escaped(name)))
		}
	}
	return all[:min(len(all), maxPlaces)]
}

func (l *learner) idHeaders() []From {
	var all []From
	for _, name := range shared(l.samples) {
		if lower := strings.ToLower(name); strings.HasSuffix(lower, "id") || strings.HasSuffix(lower, "delivery") {
			all = append(all, FromHeader(name))
		}
	}
	return all
}

// unitOf returns the unit of a text that looks like a time of this century; "" for any other text.
func unitOf(text string) Unit {
	digits := text != "" && strings.Trim(text, "0123456789") == ""
	switch t := (Timestamp{Unit: ISO8601}); {
	case digits && len(text) == 10:
		return Seconds
	case digits && len(text) == 13:
		return Milliseconds
	case digits || len(text) < 20:
		return ""
	default:
		if _, ok := t.read(text); !ok {
			return ""
		}
		return ISO8601
	}
}

func members(body []byte) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
		if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
			return
		}
		for range maxMembers {
			name, err := d.ReadToken()
			if err != nil || name.Kind() != '"' {
				return
			}
			text := name.String()
			if k := d.PeekKind(); k != '"' && k != '0' {
				if d.SkipValue() != nil {
					return
				}
				continue
			}
			value, err := d.ReadToken()
			if err != nil || !yield(text, value.String()) {
				return
			}
		}
	}
}

func escaped(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }
