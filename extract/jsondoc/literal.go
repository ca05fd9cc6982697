package jsondoc

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

func stringEnd(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	for i++; ; i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		slashes := 0
		for b[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i + 1
		}
	}
}

// DigitsOnly reports whether a text has only digits, or nothing.
func DigitsOnly(t string) bool { return strings.Trim(t, "0123456789") == "" }

// IsLiteral reports whether b is a number, true, false or null.
func IsLiteral(b []byte) bool { return literalEnd(b, 0) == len(b) }

func literalEnd(b []byte, i int) int {
	end := i
	for end < len(b) && !delimiter(b[end]) {
		end++
	}
	switch string(b[i:end]) {
	case "true", "false", "null":
		return end
	}
	if !IsNumber(b[i:end]) {
		return -1
	}
	return end
}

func delimiter(c byte) bool {
	return c == ',' || c == ']' || c == '}' || c == ' ' || c == '\n' || c == '\r' || c == '\t'
}

// IsNumber reports whether b is a number of JSON.
func IsNumber(b []byte) bool {
	b = bytes.TrimPrefix(b, []byte("-"))
	whole := digits(b)
	if whole == 0 || whole > 1 && b[0] == '0' {
		return false
	}
	if b = b[whole:]; len(b) > 0 && b[0] == '.' {
		n := digits(b[1:])
		if n == 0 {
			return false
		}
		b = b[1+n:]
	}
	if len(b) > 0 && b[0]|0x20 == 'e' {
		if b = b[1:]; len(b) > 0 && (b[0] == '+' || b[0] == '-') {
			b = b[1:]
		}
		n := digits(b)
		return n > 0 && n == len(b)
	}
	return len(b) == 0
}

func digits(b []byte) int {
	n := 0
	for n < len(b) && b[n]-'0' < 10 {
		n++
	}
	return n
}

// NameIs reports whether a raw name is the given name. The raw name has no quotes.
func NameIs(raw []byte, name string) bool {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw) == name
	}
	return Unquote(raw) == name
}

// Unquote decodes a raw name or text. The argument has no quotes around it.
func Unquote(raw []byte) string {
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw)
	}
	var s string
	q := append(append([]byte{'"'}, raw...), '"')
	if err := json.Unmarshal(q, &s); err != nil || strings.ContainsRune(s, utf8.RuneError) {
		return string(raw) // otherwise two names with invalid characters could become equal
	}
	return s
}

// TextOf returns the text of a scalar, without quotes.
func TextOf(raw []byte) string {
	if len(raw) > 0 && raw[0] == '"' {
		return Unquote(raw[1 : len(raw)-1])
	}
	return string(raw)
}
