package postgres

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// storable reports whether a text column can hold b: valid UTF-8 without zero bytes.
func storable(b []byte) bool { return bytes.IndexByte(b, 0) < 0 && utf8.Valid(b) }

// escapeText returns s in a form that a text column can hold: a zero byte becomes \u0000, a byte that is not valid
// UTF-8 becomes \x and two hex digits.
func escapeText(s string) string {
	if strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == 0:
			b.WriteString(`\u0000`)
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

// appendInstant appends a time as 2026-11-20T00:00:00Z, with six fractional digits if it has a fraction.
func appendInstant(b []byte, t time.Time) []byte {
	if t.Nanosecond() == 0 {
		return t.UTC().AppendFormat(b, "2006-01-02T15:04:05Z")
	}
	return t.UTC().AppendFormat(b, "2006-01-02T15:04:05.000000Z")
}

// Limits for a jsonb value. Postgres allows more, but it stores each number in full, and 1e131000 has that many
// digits.
const (
	mostDepth    = 1000
	mostExponent = 1000
	mostDigits   = 10000
)

// fits reports whether a JSON column can hold the document doc without changing its value. A json column holds any
// JSON. A jsonb column cannot hold a zero character, half of a surrogate pair, a duplicate name, a negative zero or a
// number beyond the limits. // Invariant 11
func fits(doc []byte, binary bool) bool {
	if plain(doc) {
		return jsontext.Value(doc).IsValid(jsontext.AllowDuplicateNames(!binary), jsontext.AllowInvalidUTF8(!binary)) && (binary || storable(doc))
	}
	return fitsSlowly(doc, binary)
}

// plain reports whether a document certainly has no zero character and no negative zero, and keeps the limits. If it
// returns true, only the document's syntax must be checked. It may return false for a document that has these
// properties.
func plain(doc []byte) bool {
	if len(doc) > mostDigits {
		return false
	}
	depth, last := 0, byte(0)
	for i, c := range doc {
		switch c {
		case '[', '{':
			depth++
		case '0':
			if last == '-' || i >= 2 && last == 'u' && doc[i-2] == '\\' {
				return false
			}
		case 'e', 'E':
			if last >= '0' && last <= '9' {
				return false
			}
		}
		last = c
	}
	return depth <= mostDepth
}

// fitsSlowly does the work of fits for any document. It checks each token.
func fitsSlowly(doc []byte, binary bool) bool {
	d := jsontext.NewDecoder(bytes.NewReader(doc), jsontext.AllowDuplicateNames(!binary), jsontext.AllowInvalidUTF8(!binary))
	if !binary && !storable(doc) {
		return false
	}
	for whole := false; ; whole = d.StackDepth() == 0 {
		v, err := d.ReadToken()
		if err != nil {
			return whole && blank(doc[d.InputOffset():])
		}
		switch {
		case whole, d.StackDepth() > mostDepth: // a second value, or one that is nested too deep
			return false
		case binary && v.Kind() == '"' && strings.IndexByte(v.String(), 0) >= 0:
			return false
		case binary && v.Kind() == '0' && !keepsNumber(v.String()):
			return false
		}
	}
}

func blank(b []byte) bool { return len(bytes.TrimLeft(b, " \t\r\n")) == 0 }

// keepsNumber reports whether jsonb stores the number unchanged.
func keepsNumber(number string) bool {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	e, err := strconv.Atoi(strings.TrimPrefix(exponent, "+"))
	if exponent != "" && (err != nil || e > mostExponent || e < -mostExponent) || len(mantissa) > mostDigits {
		return false
	}
	return mantissa[0] != '-' || strings.Trim(mantissa, "-0.") != ""
}
