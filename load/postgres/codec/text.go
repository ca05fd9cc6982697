package codec

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Storable reports whether a text column can hold b: valid UTF-8 without zero bytes.
func Storable(b []byte) bool { return bytes.IndexByte(b, 0) < 0 && utf8.Valid(b) }

// EscapeText returns s in a form that a text column can hold. A zero byte becomes \u0000. A byte that is not valid
// UTF-8 becomes \x and two hexadecimal digits.
func EscapeText(s string) string {
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

// Limits of a jsonb value. Postgres allows more, but stores each number in full: 1e131000 takes 131,001 digits.
const (
	mostDepth    = 1000
	mostExponent = 1000
	mostDigits   = 10000
)

// fits reports whether a JSON column can hold the document unchanged. The second argument is true for a jsonb column,
// and false for a json column. A json column can hold any JSON. A jsonb column cannot hold a zero character, half of a
// surrogate pair, a duplicate name, a negative zero, or a number beyond the limits. // Invariant 11
func fits(doc []byte, binary bool) bool {
	if plain(doc) {
		return jsontext.Value(doc).IsValid(jsontext.AllowDuplicateNames(!binary), jsontext.AllowInvalidUTF8(!binary)) && (binary || Storable(doc))
	}
	return fitsSlowly(doc, binary)
}

// The function plain() is a quick test of a document. If it returns true, the document has no zero character and no
// negative zero, and is within the limits. Then only its syntax must be checked. The result false means only that the
// quick test cannot decide.
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

// fitsSlowly is like fits, but checks each token. It works for any document.
func fitsSlowly(doc []byte, binary bool) bool {
	d := jsontext.NewDecoder(bytes.NewReader(doc), jsontext.AllowDuplicateNames(!binary), jsontext.AllowInvalidUTF8(!binary))
	if !binary && !Storable(doc) {
		return false
	}
	for whole := false; ; whole = d.StackDepth() == 0 {
		v, err := d.ReadToken()
		if err != nil {
			return whole && blank(doc[d.InputOffset():])
		}
		switch {
		case whole, d.StackDepth() > mostDepth: // a second value, or a value that is nested too deeply
			return false
		case binary && v.Kind() == '"' && strings.IndexByte(v.String(), 0) >= 0:
			return false
		case binary && v.Kind() == '0' && !keepsNumber(v.String()):
			return false
		}
	}
}

func blank(b []byte) bool { return len(bytes.TrimLeft(b, " \t\r\n")) == 0 }

// keepsNumber reports whether jsonb stores a number unchanged.
func keepsNumber(number string) bool {
	mantissa, exponent, _ := strings.Cut(strings.ToLower(number), "e")
	e, err := strconv.Atoi(strings.TrimPrefix(exponent, "+"))
	if exponent != "" && (err != nil || e > mostExponent || e < -mostExponent) || len(mantissa) > mostDigits {
		return false
	}
	return mantissa[0] != '-' || strings.Trim(mantissa, "-0.") != ""
}
