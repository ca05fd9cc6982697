package transform

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"unicode/utf8"

	"github.com/penstock-data/penstock/schemas"
)

// masker makes, of a value's text, the text that is stored in its place.
// Columns are full of equal values, so it remembers what it made of some.
type masker struct {
	mask  schemas.Mask
	make  func(dst, text []byte) []byte
	known map[string]string
	asked int
	found int
}

// Bounds on what a masker remembers, and when it gives remembering up.
const (
	maxKnown  = 8 << 10
	maxMemory = 64 // bytes of one value
	fewest    = 16 // one in so many must have been known
)

// errNoKey is what a mask with a key says that has none.
var errNoKey = errors.New("mask hmac has no key")

// newMasker is nil for masks that make no text.
func newMasker(m schemas.Mask, key schemas.MaskKey) (*masker, error) {
	k := &masker{mask: m, known: map[string]string{}}
	switch m.Action {
	case schemas.MaskHMAC:
		if key == "" {
			return nil, errNoKey
		}
		k.make = digested(hmac.New(sha256.New, []byte(key.Reveal())), m.Encoding)
	case schemas.MaskHash:
		k.make = digested(sha256.New(), m.Encoding)
	case schemas.MaskRedact:
		with := m.With
		if with == "" {
			with = "[redacted]"
		}
		k.make = func(dst, _ []byte) []byte { return append(dst, with...) }
	case schemas.MaskEmail:
		k.make = maskEmail
	case schemas.MaskPartial:
		keep := m.Keep
		if keep == 0 {
			keep = 4
		}
		k.make = func(dst, text []byte) []byte { return maskPartial(dst, text, keep) }
	default:
		return nil, nil
	}
	return k, nil
}

// append appends what stands for text. There is nothing to hide in an empty
// one.
func (k *masker) append(dst, text []byte) []byte {
	if len(text) == 0 {
		return dst
	}
	if k.known == nil || len(text) > maxMemory {
		return k.make(dst, text)
	}
	k.asked++
	if s, ok := k.known[string(text)]; ok {
		k.found++
		return append(dst, s...)
	}
	from := len(dst)
	dst = k.make(dst, text)
	switch {
	case len(k.known) < maxKnown:
		k.known[string(text)] = string(dst[from:])
	case k.found < k.asked/fewest:
		k.known = nil // a column of values that hardly recur
	}
	return dst
}

// digested writes h's sum of a text.
func digested(h hash.Hash, encoding string) func(dst, text []byte) []byte {
	var sum [sha256.Size]byte
	return func(dst, text []byte) []byte {
		h.Reset()
		h.Write(text)
		h.Sum(sum[:0])
		if encoding == "base64url" {
			return base64.RawURLEncoding.AppendEncode(dst, sum[:])
		}
		return hex.AppendEncode(dst, sum[:])
	}
}

// hidden stands for characters, however many they were.
const hidden = "***"

// maskEmail keeps the domain of what looks like one address.
func maskEmail(dst, text []byte) []byte {
	dst = append(dst, hidden...)
	at := bytes.IndexByte(text, '@')
	if at < 1 || at == len(text)-1 || bytes.IndexByte(text[at+1:], '@') >= 0 || bytes.ContainsAny(text[at:], " \t\r\n<>,;\"'") {
		return dst
	}
	return append(dst, text[at:]...)
}

// maskPartial keeps the last characters, but never more than half of them.
func maskPartial(dst, text []byte, keep int) []byte {
	keep = min(keep, utf8.RuneCount(text)/2)
	from := len(text)
	for range keep {
		_, n := utf8.DecodeLastRune(text[:from])
		from -= n
	}
	return append(append(dst, hidden...), text[from:]...)
}
