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

// masker masks texts. It caches some results, because a column often has many equal values.
type masker struct {
	mask    schemas.Mask
	make    func(dst, text []byte) []byte
	known   map[string]string
	lookups int
	hits    int
}

const (
	maxKnown  = 8 << 10 // number of cached values
	maxMemory = 64
	fewest    = 16 // the cache is dropped if it is full and fewer than one in 16 lookups succeed
)

var errNoKey = errors.New("mask hmac has no key")

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

func (k *masker) append(dst, text []byte) []byte {
	if len(text) == 0 {
		return dst
	}
	if k.known == nil || len(text) > maxMemory {
		return k.make(dst, text)
	}
	k.lookups++
	if s, ok := k.known[string(text)]; ok {
		k.hits++
		return append(dst, s...)
	}
	from := len(dst)
	dst = k.make(dst, text)
	switch {
	case len(k.known) < maxKnown:
		k.known[string(text)] = string(dst[from:])
	case k.hits < k.lookups/fewest:
		k.known = nil // few values repeat
	}
	return dst
}

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

const hidden = "***"

// maskEmail hides the part before the @ if the text looks like one address. It hides any other text completely.
func maskEmail(dst, text []byte) []byte {
	dst = append(dst, hidden...)
	at := bytes.IndexByte(text, '@')
	if at < 1 || at == len(text)-1 || bytes.IndexByte(text[at+1:], '@') >= 0 || bytes.ContainsAny(text[at:], " \t\r\n<>,;\"'") {
		return dst
	}
	return append(dst, text[at:]...)
}

// maskPartial shows the last characters of the text. The parameter `keep` is the number of characters to show. At most
// half of the text is shown.
func maskPartial(dst, text []byte, keep int) []byte {
	keep = min(keep, utf8.RuneCount(text)/2)
	from := len(text)
	for range keep {
		_, n := utf8.DecodeLastRune(text[:from])
		from -= n
	}
	return append(append(dst, hidden...), text[from:]...)
}
