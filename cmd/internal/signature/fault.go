package signature

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Fault is one thing wrong with a scheme: the key of its block that it is about
// and what is wrong.
type Fault struct{ Key, Message string }

// Error is the key and what is wrong with it.
func (f Fault) Error() string { return f.Key + " " + f.Message }

// maxTokens is how many parts a signed content may have.
const maxTokens = 16

// check collects what is wrong with a scheme.
type check struct {
	Scheme
	faults []Fault
}

func (c *check) fault(key, format string, args ...any) {
	c.faults = append(c.faults, Fault{key, fmt.Sprintf(format, args...)})
}

// Faults is everything wrong with a scheme; empty where [Compile] takes it.
func (s Scheme) Faults() []Fault {
	c := &check{Scheme: s.filled()}
	if !isHeaderName(s.Header) {
		c.fault("header", "%q is no name of a header", s.Header)
	}
	c.parse()
	c.algorithm()
	c.place("timestamp", s.Timestamp.From, s.Parse.TS != "" || strings.Contains(s.Parse.Template, "{ts}"))
	c.place("event_id", s.EventID, s.Parse.ID != "" || strings.Contains(s.Parse.Template, "{id}"))
	c.timestamp()
	c.content()
	return c.faults
}

func (c *check) algorithm() {
	switch {
	case !slices.Contains(Algorithms(), c.Algorithm):
		c.fault("algorithm", "%q is unknown", c.Algorithm)
	case c.Algorithm == HMACSHA1 && !c.AllowWeak:
		c.fault("algorithm", "hmac-sha1 is weak; take another, or set `allow_weak: true` where the sender has no other")
	}
	if !slices.Contains(Encodings(), c.Encoding) {
		c.fault("encoding", "%q is unknown", c.Encoding)
	}
	good := []KeyEncoding{Text, TextWithoutPrefix, KeyBase64, WhsecBase64, KeyHex}
	if c.Algorithm.public() {
		good = []KeyEncoding{PEM, KeyBase64, WhsecBase64, KeyHex}
	}
	if !slices.Contains(good, c.KeyEncoding) {
		c.fault("key_encoding", "%q is none of %s", c.KeyEncoding, c.Algorithm)
	}
}

func (c *check) place(key string, f From, parsed bool) {
	name, header := f.header()
	pointer, json := f.pointer()
	switch {
	case f.nowhere():
	case f == Parsed:
		if !parsed {
			c.fault(key, "is parsed, and parse does not say where it stands")
		}
	case header:
		if !isHeaderName(name) {
			c.fault(key, "%q is no name of a header", name)
		}
	case json:
		if _, ok := pointerOf(pointer); !ok {
			c.fault(key, "%q is no pointer into the body; want one such as json:/id", pointer)
		}
	default:
		c.fault(key, "%q is no place; want parsed, header:NAME, json:/pointer or none", f)
	}
}

// timestamp holds that a time which is judged was signed: anybody can write a
// fresh one into a header.
func (c *check) timestamp() {
	t := c.Timestamp
	if !slices.Contains(Units(), t.Unit) {
		c.fault("timestamp", "unit %q is unknown; want s, ms or iso8601", t.Unit)
	}
	for _, d := range []time.Duration{t.Past, t.Future} {
		if d < time.Second || d > MaxWindow {
			c.fault("timestamp", "window of %s: want 1s to %s", d, MaxWindow)
		}
	}
	name, header := t.From.header()
	signed := uses(c.Content, TS) || header && slices.ContainsFunc(c.Content, func(t Token) bool {
		return t.Kind == HeaderOf && strings.EqualFold(t.Text, name)
	})
	if (header || t.From == Parsed) && !signed {
		c.fault("timestamp", "is not signed, so that anybody may change it; put ts into content, or leave timestamp out")
	}
}

func (c *check) content() {
	n := 0
	walk(c.Content, func(t Token) { n++; c.token(t) })
	switch {
	case !uses(c.Content, Body):
		c.fault("content", "does not hold the body, so that anybody may change it")
	case n > maxTokens:
		c.fault("content", "has %d parts; want at most %d", n, maxTokens)
	}
	if uses(c.Content, TS) && c.Timestamp.From.nowhere() {
		c.fault("content", "holds ts, and timestamp does not say where it stands")
	}
	if uses(c.Content, ID) && c.EventID.nowhere() {
		c.fault("content", "holds id, and event_id does not say where it stands")
	}
	if uses(c.Content, KeyID) && c.Parse.KeyID == "" && !strings.Contains(c.Parse.Template, "{key_id}") {
		c.fault("content", "holds key_id, and parse does not say where it stands")
	}
	u, err := url.Parse(c.PublicURL)
	bad := err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != ""
	switch {
	case c.PublicURL == "" && uses(c.Content, URL):
		c.fault("content", "holds url; set public_url to the address that the sender calls")
	case c.PublicURL != "" && bad:
		c.fault("public_url", "%q is no address such as https://hooks.example.com/webhooks/main", c.PublicURL)
	}
}

func (c *check) token(t Token) {
	digest := t.Kind == SHA256Hex || t.Kind == SHA256Raw
	switch {
	case digest && len(t.Of) == 0, t.Kind == Fixed && t.Text == "":
		c.fault("content", "holds an empty %s", t.Kind)
	case digest && slices.ContainsFunc(t.Of, func(t Token) bool { return t.Of != nil }):
		c.fault("content", "holds a digest of a digest")
	case t.Kind == HeaderOf && !isHeaderName(t.Text):
		c.fault("content", "%q is no name of a header", t.Text)
	case !digest && t.Kind != Fixed && t.Kind != HeaderOf && !slices.Contains(plainKinds, t.Kind):
		c.fault("content", "%q is unknown", t.Kind)
	}
}

func walk(ts []Token, visit func(Token)) {
	for _, t := range ts {
		visit(t)
		walk(t.Of, visit)
	}
}
