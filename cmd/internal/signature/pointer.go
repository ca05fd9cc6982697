package signature

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

const maxPointer = 8

// pointerOf parses a JSON pointer (RFC 6901).
func pointerOf(p string) ([]string, bool) {
	after, ok := strings.CutPrefix(p, "/")
	if !ok {
		return nil, false
	}
	parts := strings.Split(after, "/")
	for i, part := range parts {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(part), "~") {
			return nil, false
		}
		parts[i] = strings.NewReplacer("~0", "~", "~1", "/").Replace(part)
	}
	return parts, len(parts) <= maxPointer
}

// lookUp returns the string or number at a path in a JSON document. It returns "" if there is none, or if the
// document is not JSON. It reads only as much of the document as it needs.
func lookUp(doc []byte, path []string) string {
	d := jsontext.NewDecoder(bytes.NewBuffer(doc), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for _, name := range path {
		if !descend(d, name) {
			return ""
		}
	}
	switch d.PeekKind() {
	case '"', '0':
		t, err := d.ReadToken()
		if err != nil {
			return ""
		}
		return t.String()
	}
	return ""
}

func descend(d *jsontext.Decoder, name string) bool {
	t, err := d.ReadToken()
	if err != nil {
		return false
	}
	switch t.Kind() {
	case '{':
		for d.PeekKind() == '"' {
			key, err := d.ReadToken()
			if err != nil {
				return false
			}
			if key.String() == name {
				return true
			}
			if d.SkipValue() != nil {
				return false
			}
		}
	case '[':
		n, err := strconv.Atoi(name)
		if err != nil || n < 0 || strconv.Itoa(n) != name {
			return false
		}
		for range n {
			if k := d.PeekKind(); k == ']' || d.SkipValue() != nil {
				return false
			}
		}
		return d.PeekKind() != ']'
	}
	return false
}
