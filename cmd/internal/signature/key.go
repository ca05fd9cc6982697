package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"hash"
	"strings"
	"sync"
	"time"

	"github.com/penstock-data/penstock/extract/wire"
)

// Key is a secret or a public key that verifies signatures. It is never both. While a sender changes its key, several
// keys may be valid at the same time.
type Key struct {
	Secret    wire.Secret // secret of a MAC
	PublicKey string      // public key for ed25519, ECDSA or RSA
	Label     string      // name in verdicts and metrics; it contains no part of the secret
	NotAfter  time.Time   // the key is valid before this time; zero: it never expires
}

// Serves reports whether the scheme needs this kind of key: a secret, or a public key.
func (k Key) Serves(s Scheme) bool { return (k.PublicKey != "") == s.Algorithm.public() }

// Check returns an error if the key cannot be used with a scheme. The error never contains the key.
// Invariant 5
func (k Key) Check(s Scheme) error {
	_, err := k.material(s.filled())
	return err
}

func (k Key) material(s Scheme) (any, error) {
	if !s.Algorithm.public() {
		return secretBytes(k.Secret.Reveal(), s.KeyEncoding)
	}
	raw, err := publicBytes(k.PublicKey, s.KeyEncoding)
	if err != nil {
		return nil, err
	}
	if s.Algorithm == Ed25519 && len(raw) == ed25519.PublicKeySize {
		return ed25519.PublicKey(raw), nil
	}
	pub, err := x509.ParsePKIXPublicKey(raw)
	if err != nil {
		return nil, errors.New("is not a public key")
	}
	return pub, fits(pub, s.Algorithm)
}

func fits(pub crypto.PublicKey, a Algorithm) error {
	switch k := pub.(type) {
	case ed25519.PublicKey:
		if a == Ed25519 {
			return nil
		}
	case *ecdsa.PublicKey:
		if a == ECDSAP256 && k.Curve == elliptic.P256() {
			return nil
		}
	case *rsa.PublicKey:
		if a == RSASHA256 && k.Size() >= 256 && k.Size() <= 1024 {
			return nil
		}
	}
	return fmt.Errorf("is not a key for %s", a)
}

// secretBytes decodes a secret. An empty secret is an error, because anyone can make a MAC with an empty key.
func secretBytes(text string, e KeyEncoding) ([]byte, error) {
	raw, err := []byte(text), error(nil)
	switch e {
	case Text:
	case TextWithoutPrefix:
		_, after, found := strings.Cut(text, "_")
		if !found {
			return nil, errors.New("has no prefix that ends with _")
		}
		raw = []byte(after)
	case KeyBase64, WhsecBase64:
		if e == WhsecBase64 {
			text = strings.TrimPrefix(text, "whsec_")
		}
		raw, err = base64.StdEncoding.DecodeString(text)
	case KeyHex:
		raw, err = hex.DecodeString(text)
	default:
		return nil, fmt.Errorf("cannot be read as %s", e)
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("is not %s", e)
	case strings.TrimSpace(string(raw)) == "":
		return nil, errors.New("is empty")
	}
	return raw, nil
}

func publicBytes(text string, e KeyEncoding) (raw []byte, err error) {
	switch e {
	case PEM:
		block, _ := pem.Decode([]byte(text))
		if block == nil {
			return nil, errors.New("is not pem")
		}
		return block.Bytes, nil
	case KeyBase64, WhsecBase64:
		if e == WhsecBase64 {
			text = strings.TrimPrefix(text, "whpk_")
		}
		raw, err = base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	case KeyHex:
		raw, err = hex.DecodeString(strings.TrimSpace(text))
	default:
		return nil, fmt.Errorf("cannot be read as %s", e)
	}
	if err != nil {
		return nil, fmt.Errorf("is not %s", e)
	}
	return raw, nil
}

// checker compares signatures with the signed content. The caller must have decoded the signatures, and their lengths
// must be valid for the algorithm.
type checker interface {
	matches(s *scratch, sigs [][]byte) bool
}

func newChecker(s Scheme, material any) checker {
	switch k := material.(type) {
	case ed25519.PublicKey:
		return edKey(k)
	case *ecdsa.PublicKey:
		return (*ecKey)(k)
	case *rsa.PublicKey:
		return (*rsaKey)(k)
	}
	digest := map[Algorithm]func() hash.Hash{HMACSHA1: sha1.New, HMACSHA256: sha256.New, HMACSHA384: sha512.New384, HMACSHA512: sha512.New}[s.Algorithm]
	m := &macKey{}
	m.pool.New = func() any { return hmac.New(digest, material.([]byte)) }
	return m
}

// macKey is the secret of a MAC. Its pool has MACs that have already digested the secret.
type macKey struct{ pool sync.Pool }

// matches compares all signatures, even after a match, so that the time does not show which signature matches.
func (k *macKey) matches(s *scratch, sigs [][]byte) bool {
	m := k.pool.Get().(hash.Hash)
	defer k.pool.Put(m)
	m.Reset()
	for _, part := range s.segments {
		m.Write(part)
	}
	s.sum = m.Sum(s.sum[:0])
	found := false
	for _, sig := range sigs {
		if hmac.Equal(sig, s.sum) {
			found = true
		}
	}
	return found
}

type edKey ed25519.PublicKey

func (k edKey) matches(s *scratch, sigs [][]byte) bool {
	var content []byte
	for _, part := range s.segments {
		content = append(content, part...)
	}
	return anyOf(sigs, func(sig []byte) bool { return ed25519.Verify(ed25519.PublicKey(k), content, sig) })
}

type ecKey ecdsa.PublicKey

func (k *ecKey) matches(s *scratch, sigs [][]byte) bool {
	digest := s.digest()
	return anyOf(sigs, func(sig []byte) bool { return ecdsa.VerifyASN1((*ecdsa.PublicKey)(k), digest[:], sig) })
}

type rsaKey rsa.PublicKey

func (k *rsaKey) matches(s *scratch, sigs [][]byte) bool {
	digest := s.digest()
	return anyOf(sigs, func(sig []byte) bool {
		return rsa.VerifyPKCS1v15((*rsa.PublicKey)(k), crypto.SHA256, digest[:], sig) == nil
	})
}

func (s *scratch) digest() [sha256.Size]byte { return digestOf(s.segments) }

func digestOf(parts [][]byte) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, part := range parts {
		h.Write(part)
	}
	h.Sum(sum[:0])
	return sum
}

func anyOf(sigs [][]byte, good func([]byte) bool) bool {
	found := false
	for _, sig := range sigs {
		if good(sig) {
			found = true
		}
	}
	return found
}

func (a Algorithm) lengths() (least, most int) {
	switch a {
	case HMACSHA1:
		return sha1.Size, sha1.Size
	case HMACSHA384:
		return sha512.Size384, sha512.Size384
	case HMACSHA512:
		return sha512.Size, sha512.Size
	case Ed25519:
		return ed25519.SignatureSize, ed25519.SignatureSize
	case ECDSAP256:
		return 8, 72
	case RSASHA256:
		return 256, 1024
	}
	return sha256.Size, sha256.Size
}

// appendDecoded decodes a text and appends the bytes to buf. Only the canonical form of the encoding is accepted.
func (e Encoding) appendDecoded(buf []byte, text string) ([]byte, bool) {
	if e == Hex {
		if strings.Trim(text, "0123456789abcdef") != "" {
			return buf, false
		}
		out, err := hex.AppendDecode(buf, []byte(text))
		return out, err == nil
	}
	coding := base64.StdEncoding.Strict()
	if e == Base64URL {
		coding = base64.RawURLEncoding.Strict()
	}
	// The decoder ignores line breaks, but the text has none, because parse() has refused headers with characters that
	// are not printable.
	out, err := coding.AppendDecode(buf, []byte(text))
	return out, err == nil
}
