package signature

import (
	"slices"
	"strconv"
	"strings"
)

// Kind is the kind of a [Token].
type Kind string

// The kinds. Some have an argument, in the field [Token.Text] or [Token.Of].
const (
	Fixed     Kind = "literal" // the text in Text
	Body      Kind = "body"    // the raw bytes
	TS        Kind = "ts"      // the timestamp, as received
	ID        Kind = "id"      // the event id, as received
	KeyID     Kind = "key_id"  // the name of the signing key, from the signature header
	Method    Kind = "method"
	Path      Kind = "path"
	Query     Kind = "query"     // the query, without the question mark
	URL       Kind = "url"       // PublicURL of the scheme, with the query of the request
	HeaderOf  Kind = "header"    // the value of the header that Text names
	SHA256Hex Kind = "sha256hex" // digest of the tokens in Of, in lower-case hex
	SHA256Raw Kind = "sha256raw" // digest of the tokens in Of, as 32 bytes
)

// Token is one part of the signed content.
type Token struct {
	Kind Kind
	Text string  // Fixed: the text; HeaderOf: the name of the header
	Of   []Token // SHA256Hex and SHA256Raw: the tokens that are hashed
}

// Literal returns a token for a fixed text.
func Literal(text string) Token { return Token{Kind: Fixed, Text: text} }

var plainKinds = []Kind{Body, TS, ID, KeyID, Method, Path, Query, URL}

// ParseToken parses a token in the configuration: a word such as body, header:NAME, sha256hex(WORD) or
// sha256raw(WORD). It does not parse literals.
func ParseToken(word string) (Token, bool) {
	if slices.Contains(plainKinds, Kind(word)) {
		return Token{Kind: Kind(word)}, true
	}
	if name, ok := strings.CutPrefix(word, "header:"); ok {
		return Token{Kind: HeaderOf, Text: name}, isHeaderName(name)
	}
	for _, k := range []Kind{SHA256Hex, SHA256Raw} {
		inner, ok := strings.CutPrefix(word, string(k)+"(")
		if inner, closed := strings.CutSuffix(inner, ")"); ok && closed {
			of, known := ParseToken(inner)
			return Token{Kind: k, Of: []Token{of}}, known && of.Of == nil
		}
	}
	return Token{}, false
}

// TokenNames returns the words that [ParseToken] accepts, for messages.
func TokenNames() []string {
	return []string{"body", "ts", "id", "key_id", "method", "path", "query", "url", "header:NAME", "sha256hex(body)", "sha256raw(body)"}
}

// String returns the token as it is written in the configuration.
func (t Token) String() string {
	switch {
	case t.Kind == Fixed:
		return strconv.Quote(t.Text)
	case t.Kind == HeaderOf:
		return "header:" + t.Text
	case t.Of == nil:
		return string(t.Kind)
	case len(t.Of) == 1 && t.Of[0].Kind != Fixed:
		return string(t.Kind) + "(" + t.Of[0].String() + ")"
	}
	return "{" + string(t.Kind) + ": " + tokenList(t.Of) + "}"
}

func tokenList(ts []Token) string {
	words := make([]string, len(ts))
	for i, t := range ts {
		words[i] = t.String()
	}
	return "[" + strings.Join(words, ", ") + "]"
}

func uses(ts []Token, k Kind) bool {
	return slices.ContainsFunc(ts, func(t Token) bool { return t.Kind == k || uses(t.Of, k) })
}

func isHeaderName(s string) bool {
	for _, c := range []byte(s) {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(`()<>@,;:\"/[]?={}`, c) >= 0 {
			return false
		}
	}
	return s != "" && len(s) <= 128
}
