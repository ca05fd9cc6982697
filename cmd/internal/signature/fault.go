package signature

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Fault is an error in a scheme. Key is the key in the configuration block. Message says what is wrong with the value
// of that key.
type Fault struct{ Key, Message string }

// Error returns the key and the message.
func (f Fault) Error() string { return f.Key + " " + f.Message }

const maxTokens = 16

type check struct {
	Scheme
	faults []Fault
}

func (c *check) fault(key, format string, args ...any) {
	c.faults = append(c.faults, Fault{key, fmt.Sprintf(format, args...)})
}

// Faults returns all faults of a scheme. If there are none, [Compile] accepts the scheme.
func (s Scheme) Faults() []Fault {
	c := &check{Scheme: s.filled()}
	if !isHeaderName(s.Header) {
		c.fault("header", "%q is not a header name", s.Header)
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
		c.fault("algorithm", "hmac-sha1 is weak; use another algorithm, or set `allow_weak: true` if the sender supports no other algorithm")
	}
	if !slices.Contains(Encodings(), c.Encoding) {
		c.fault("encoding", "%q is unknown", c.Encoding)
	}
	good := []KeyEncoding{Text, TextWithoutPrefix, KeyBase64, WhsecBase64, KeyHex}
	if c.Algorithm.public() {
		good = []KeyEncoding{PEM, KeyBase64, WhsecBase64, KeyHex}
	}
	if !slices.Contains(good, c.KeyEncoding) {
		c.fault("key_encoding", "%q cannot be used with %s", c.KeyEncoding, c.Algorithm)
	}
}

func (c *check) place(key string, f From, parsed bool) {
	name, header := f.header()
	pointer, json := f.pointer()
	switch {
	case f.nowhere():
	case f == Parsed:
		if !parsed {
			c.fault(key, "is taken from the signature header, but parse does not say where it is")
		}
	case header:
		if !isHeaderName(name) {
			c.fault(key, "%q is not a header name", name)
		}
	case json:
		if _, ok := pointerOf(pointer); !ok {
			c.fault(key, "%q is not a pointer into the body; want for example json:/id", pointer)
		}
	default:
		c.fault(key, "%q is not a place; want parsed, header:NAME, json:/pointer or none", f)
	}
}

// timestamp checks the place, the unit and the limits of the time. The time must be signed, because anyone can
// write a new time into an unsigned header.
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
		c.fault("timestamp", "is not signed, so anyone can change it; add ts to content, or remove timestamp")
	}
}

func (c *check) content() {
	n := 0
	walk(c.Content, func(t Token) { n++; c.token(t) })
	switch {
	case !uses(c.Content, Body):
		c.fault("content", "does not include the body, so anyone can change it")
	case n > maxTokens:
		c.fault("content", "has %d parts; want at most %d", n, maxTokens)
	}
	if uses(c.Content, TS) && c.Timestamp.From.nowhere() {
		c.fault("content", "includes ts, but timestamp does not say where it is")
	}
	if uses(c.Content, ID) && c.EventID.nowhere() {
		c.fault("content", "includes id, but event_id does not say where it is")
	}
	if uses(c.Content, KeyID) && c.Parse.KeyID == "" && !strings.Contains(c.Parse.Template, "{key_id}") {
		c.fault("content", "includes key_id, but parse does not say where it is")
	}
	u, err := url.Parse(c.PublicURL)
	bad := err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.RawQuery != "" || u.Fragment != ""
	switch {
	case c.PublicURL == "" && uses(c.Content, URL):
		c.fault("content", "includes url; set public_url to the address that the sender calls")
	case c.PublicURL != "" && bad:
		c.fault("public_url", "%q is not an address; want for example https://hooks.example.com/webhooks/main", c.PublicURL)
	}
}

func (c *check) token(t Token) {
	digest := t.Kind == SHA256Hex || t.Kind == SHA256Raw
	switch {
	case digest && len(t.Of) == 0, t.Kind == Fixed && t.Text == "":
		c.fault("content", "includes an empty %s", t.Kind)
	case digest && slices.ContainsFunc(t.Of, func(t Token) bool { return t.Of != nil }):
		c.fault("content", "includes a digest of a digest")
	case t.Kind == HeaderOf && !isHeaderName(t.Text):
		c.fault("content", "%q is not a header name", t.Text)
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
