package wire

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
)

const redacted = "[redacted]"

// Secret is text that appears as [redacted] when it is printed, marshaled or logged. // Invariant 5
type Secret string

// Reveal returns the secret text.
func (s Secret) Reveal() string { return string(s) }

// String returns [redacted].
func (s Secret) String() string { return redacted }

// GoString returns [redacted].
func (s Secret) GoString() string { return redacted }

// Format writes [redacted] for every verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText returns [redacted].
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON returns "[redacted]".
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// LogValue returns [redacted].
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// minSecret is the minimum length of a secret that is redacted. Shorter secrets would match too much text.
const minSecret = 4

// Redactor replaces known secrets in text. It also finds secrets that are encoded as base64 or hex, or escaped for a
// URL or for JSON. It never forgets a secret, because a replaced token may still be valid. It is safe for concurrent
// use.
type Redactor struct {
	mu       sync.RWMutex
	known    map[string]bool // every form of every secret
	longest  int
	replacer *strings.Replacer
}

// NewRedactor returns a redactor that knows the given secrets.
func NewRedactor(secrets ...Secret) *Redactor {
	r := &Redactor{known: map[string]bool{}, replacer: strings.NewReplacer()}
	r.Add(secrets...)
	return r
}

// Add adds secrets. It ignores secrets that are shorter than four bytes.
func (r *Redactor) Add(secrets ...Secret) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.known)
	for _, s := range secrets {
		if len(s) < minSecret || r.known[string(s)] {
			continue
		}
		for _, form := range forms(string(s)) {
			r.known[form] = true
			r.longest = max(r.longest, len(form))
		}
	}
	if len(r.known) == before {
		return
	}
	all := make([]string, 0, len(r.known))
	for form := range r.known {
		all = append(all, form)
	}
	// If two forms match at the same place, the replacer uses the form that comes first in its list. So the longest
	// forms come first.
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	pairs := make([]string, 0, 2*len(all))
	for _, form := range all {
		pairs = append(pairs, form, redacted)
	}
	r.replacer = strings.NewReplacer(pairs...)
}

// Redact returns the text with each known secret replaced by [redacted].
func (r *Redactor) Redact(text string) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.replacer.Replace(text)
}

// excerpt returns about the first n bytes of text, redacted. If the text was cut inside a secret, the excerpt does not
// contain the first part of that secret.
func (r *Redactor) excerpt(text string, n int) string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	whole := true
	if window := 4*n + r.longest; len(text) > window {
		text, whole = text[:window], false
	}
	out := r.replacer.Replace(text)
	if !whole {
		out = out[:max(0, len(out)-r.longest)]
	}
	if len(out) > n {
		out = out[:n]
	}
	return strings.ToValidUTF8(out, "")
}

func forms(s string) []string {
	all := []string{s, hex.EncodeToString([]byte(s)), strings.ToUpper(hex.EncodeToString([]byte(s)))}
	all = append(all, base64Forms(s)...)
	for _, escaped := range []string{url.QueryEscape(s), url.PathEscape(s)} {
		all = append(all, escaped, lowerEscapes(escaped))
	}
	return append(all, jsonForms(s)...)
}

// base64Forms returns the parts of a secret's base64 that do not depend on the text around it. A secret may begin at
// three offsets, for example in an encoded "user:password".
func base64Forms(s string) []string {
	var all []string
	for offset := range 3 {
		text := base64.StdEncoding.EncodeToString(append(make([]byte, offset), s...))
		first := (offset*8 + 5) / 6       // number of characters that depend on the text before the secret
		last := (offset + len(s)) * 8 / 6 // end of the characters that do not depend on the text after the secret
		if form := text[first:last]; len(form) >= minSecret {
			all = append(all, form, strings.NewReplacer("+", "-", "/", "_").Replace(form))
		}
	}
	return all
}

func lowerEscapes(s string) string {
	b := []byte(s)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i:i+3], strings.ToLower(s[i:i+3]))
		}
	}
	return string(b)
}

func jsonForms(s string) []string {
	var all []string
	for _, html := range []bool{true, false} {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(html)
		if e.Encode(s) != nil {
			continue
		}
		text := strings.TrimSuffix(b.String(), "\n")
		text = text[1 : len(text)-1]
		all = append(all, text, strings.ReplaceAll(text, "/", `\/`)) // PHP escapes the slash
	}
	return all
}
