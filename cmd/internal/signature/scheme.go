package signature

import (
	"slices"
	"strings"
	"time"
)

// Scheme describes how a sender signs its deliveries. It is data, so that a new sender needs only a block of
// configuration, not a new release. [Scheme.Faults] returns its errors. A zero field has the default that its comment
// names.
type Scheme struct {
	Name        string // shown in verdicts and metrics
	Header      string // name of the header with the signature, in upper or lower case
	Parse       Parse
	Timestamp   Timestamp
	EventID     From        // place of the event's id, which identifies duplicates if it is signed; "": there is none
	Content     []Token     // what is signed, concatenated in this order
	Algorithm   Algorithm   // "": HMACSHA256
	Encoding    Encoding    // encoding of the signature; "": Hex
	KeyEncoding KeyEncoding // "": Text for MACs, PEM for public keys
	PublicURL   string      // URL that the sender calls, needed if Content has the part "url"; it is never taken from a request
	AllowWeak   bool        // accept HMACSHA1
}

// Style is the grammar of the signature header.
type Style string

// The styles.
const (
	Bare     Style = "bare"     // only the signature
	Prefixed Style = "prefix"   // a fixed text, then the signature
	KV       Style = "kv"       // pairs of keys and values
	List     Style = "list"     // signatures, each after a fixed text
	Template Style = "template" // {sig}, {ts}, {id} and {key_id} between fixed texts
)

// Parse describes how to parse the signature header. A field that belongs to another style is a fault.
type Parse struct {
	Style Style // "": Bare

	Prefix string // Prefixed: the text before the signature

	PairSep string   // KV: text between pairs; "": a comma
	KVSep   string   // KV: text between a key and its value; "": an equals sign
	Sig     []string // KV: keys of signatures; each may occur more than once
	TS      string   // KV: key of the timestamp, which occurs once
	ID      string   // KV: key of the event id, which occurs once
	KeyID   string   // KV: key of the name of the signing key, which occurs once
	Ignore  []string // KV: keys to ignore; a delivery with any other key is refused

	Sep        string // List and Template: text between items; "": a space for List, and for Template no text, so that the header is one item
	ItemPrefix string // List: prefix of signatures; items without it are ignored

	Template string // Template: the template of each item
}

// From is the place of a value: `parsed` (in the signature header), `header:NAME`, or `json:/pointer` (in the
// body). With `none` or "", there is no such value.
type From string

// The places without an argument.
const (
	Parsed From = "parsed"
	None   From = "none"
)

// FromHeader returns the place of a header's value.
func FromHeader(name string) From { return From("header:" + name) }

// FromJSON returns the place in the body to which a JSON pointer (RFC 6901) leads.
func FromJSON(pointer string) From { return From("json:" + pointer) }

func (f From) header() (string, bool)  { return strings.CutPrefix(string(f), "header:") }
func (f From) pointer() (string, bool) { return strings.CutPrefix(string(f), "json:") }
func (f From) nowhere() bool           { return f == "" || f == None }

// Unit is the format of a timestamp.
type Unit string

// The units.
const (
	Seconds      Unit = "s"
	Milliseconds Unit = "ms"
	ISO8601      Unit = "iso8601" // as RFC 3339
)

// Default limits of a timestamp's age.
const (
	DefaultPast   = 300 * time.Second
	DefaultFuture = 60 * time.Second
)

// MaxWindow is the maximum of both limits.
const MaxWindow = 24 * time.Hour

// Timestamp says where a delivery has its time, and how old it may be. The time is checked after the signature,
// so that a forger learns nothing when a delivery is refused.
type Timestamp struct {
	From   From          // place of the time; "": there is none, and the age is not checked
	Unit   Unit          // "": Seconds
	Past   time.Duration // how far in the past the time may be; 0: DefaultPast
	Future time.Duration // how far in the future the time may be; 0: DefaultFuture
}

// Algorithm is the algorithm of a MAC or of a signature.
type Algorithm string

// The algorithms.
const (
	HMACSHA1   Algorithm = "hmac-sha1" // only with AllowWeak
	HMACSHA256 Algorithm = "hmac-sha256"
	HMACSHA384 Algorithm = "hmac-sha384"
	HMACSHA512 Algorithm = "hmac-sha512"
	Ed25519    Algorithm = "ed25519"
	ECDSAP256  Algorithm = "ecdsa-p256-sha256" // ASN.1 DER
	RSASHA256  Algorithm = "rsa-sha256"        // PKCS #1 v1.5
)

// Encoding says how the bytes of a signature are encoded. Only the canonical form of each encoding is accepted.
type Encoding string

// The encodings.
const (
	Hex       Encoding = "hex"       // lower case
	Base64    Encoding = "base64"    // padded
	Base64URL Encoding = "base64url" // not padded
)

// KeyEncoding says how the bytes of a key are encoded as text.
type KeyEncoding string

// The encodings of keys.
const (
	Text              KeyEncoding = "text"
	TextWithoutPrefix KeyEncoding = "text_without_prefix" // the text after the first _
	KeyBase64         KeyEncoding = "base64"
	WhsecBase64       KeyEncoding = "whsec_base64" // base64 after whsec_ or whpk_
	KeyHex            KeyEncoding = "hex"
	PEM               KeyEncoding = "pem"
)

// Styles returns all styles.
func Styles() []Style { return []Style{Bare, Prefixed, KV, List, Template} }

// Units returns all units.
func Units() []Unit { return []Unit{Seconds, Milliseconds, ISO8601} }

// Algorithms returns all algorithms.
func Algorithms() []Algorithm {
	return []Algorithm{HMACSHA256, HMACSHA384, HMACSHA512, Ed25519, ECDSAP256, RSASHA256, HMACSHA1}
}

// Encodings returns all encodings.
func Encodings() []Encoding { return []Encoding{Hex, Base64, Base64URL} }

// KeyEncodings returns all encodings of keys.
func KeyEncodings() []KeyEncoding {
	return []KeyEncoding{Text, TextWithoutPrefix, KeyBase64, WhsecBase64, KeyHex, PEM}
}

// Presets returns the names that [Preset] accepts.
func Presets() []string { return []string{"stripe", "hex", "base64", "standard", "slack"} }

// Preset returns the scheme with the given name, for signatures in the given header. It returns false if there is no
// such preset. Other senders use these schemes, and the platform may use one of them too. In all presets except
// standard, the event id is at /id of the body, as in the platform's events.
func Preset(name, header string) (Scheme, bool) {
	s := Scheme{Name: name, Header: header, EventID: FromJSON("/id"), Content: []Token{{Kind: Body}}}
	switch name {
	case "stripe":
		s.Parse = Parse{Style: KV, Sig: []string{"v1"}, TS: "t", Ignore: []string{"v0"}}
		s.Timestamp.From = Parsed
		s.Content = []Token{{Kind: TS}, Literal("."), {Kind: Body}}
	case "hex":
	case "base64":
		s.Encoding = Base64
	case "standard":
		s.Parse = Parse{Style: List, ItemPrefix: "v1,"}
		s.Timestamp.From = FromHeader("Webhook-Timestamp")
		s.EventID = FromHeader("Webhook-Id")
		s.Content = []Token{{Kind: ID}, Literal("."), {Kind: TS}, Literal("."), {Kind: Body}}
		s.Encoding, s.KeyEncoding = Base64, WhsecBase64
	case "slack":
		s.Parse = Parse{Style: Prefixed, Prefix: "v0="}
		s.Timestamp.From = FromHeader("X-Slack-Request-Timestamp")
		s.Content = []Token{Literal("v0:"), {Kind: TS}, Literal(":"), {Kind: Body}}
	}
	return s, slices.Contains(Presets(), name)
}

func (s Scheme) filled() Scheme {
	s.Parse = s.Parse.filled()
	s.Algorithm = or(s.Algorithm, HMACSHA256)
	s.Encoding = or(s.Encoding, Hex)
	s.KeyEncoding = or(s.KeyEncoding, s.Algorithm.defaultKeyEncoding())
	s.Timestamp.Unit = or(s.Timestamp.Unit, Seconds)
	s.Timestamp.Past = or(s.Timestamp.Past, DefaultPast)
	s.Timestamp.Future = or(s.Timestamp.Future, DefaultFuture)
	return s
}

func (p Parse) filled() Parse {
	p.Style = or(p.Style, Bare)
	switch p.Style {
	case KV:
		p.PairSep, p.KVSep = or(p.PairSep, ","), or(p.KVSep, "=")
	case List:
		p.Sep = or(p.Sep, " ")
	}
	return p
}

func (a Algorithm) defaultKeyEncoding() KeyEncoding {
	if a.public() {
		return PEM
	}
	return Text
}

func (a Algorithm) public() bool { return a == Ed25519 || a == ECDSAP256 || a == RSASHA256 }

func or[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}
