package signature

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"hash"
	"net/textproto"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/wire"
)

var received = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const (
	textSecret = "whsec_4f2aPenstockSecretNumberOne=="
	endpoint   = "https://hooks.example.com/webhooks/main"
)

// rawKey is the decoded whsec_ secret of Standard Webhooks.
var rawKey = []byte("0123456789abcdef01234567")

// family is a signature scheme that a real sender uses. The function sign follows the sender's manual and does
// not use the code under test.
type family struct {
	name   string
	scheme Scheme
	key    Key
	sign   func(id string, at time.Time, body []byte) map[string]string
	timed  bool
}

func mac(h func() hash.Hash, key []byte, parts ...string) []byte {
	m := hmac.New(h, key)
	for _, p := range parts {
		m.Write([]byte(p))
	}
	return m.Sum(nil)
}

func hexMAC(parts ...string) string {
	return hex.EncodeToString(mac(sha256.New, []byte(textSecret), parts...))
}

func b64MAC(parts ...string) string {
	return base64.StdEncoding.EncodeToString(mac(sha256.New, []byte(textSecret), parts...))
}

func seconds(at time.Time) string { return strconv.FormatInt(at.Unix(), 10) }
func millis(at time.Time) string  { return strconv.FormatInt(at.UnixMilli(), 10) }

type pair struct {
	private crypto.Signer
	pem     string
}

func newPair(private crypto.Signer, err error) pair {
	if err != nil {
		panic(err)
	}
	der, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		panic(err)
	}
	return pair{private, string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))}
}

var (
	pairs      = sync.OnceValue(newPairs)
	otherPairs = sync.OnceValue(newPairs)
)

func newPairs() map[Algorithm]pair {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	ec, ecErr := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	rs, rsErr := rsa.GenerateKey(rand.Reader, 2048)
	return map[Algorithm]pair{Ed25519: newPair(ed, err), ECDSAP256: newPair(ec, ecErr), RSASHA256: newPair(rs, rsErr)}
}

func otherPublic(s Scheme) Key {
	s = s.filled()
	p := otherPairs()[s.Algorithm]
	ed, _ := p.private.Public().(ed25519.PublicKey)
	switch s.KeyEncoding {
	case KeyHex:
		return Key{PublicKey: hex.EncodeToString(ed)}
	case WhsecBase64:
		return Key{PublicKey: "whpk_" + base64.StdEncoding.EncodeToString(ed)}
	}
	return Key{PublicKey: p.pem}
}

func signed(a Algorithm, text string) []byte {
	p, opts, content := pairs()[a], crypto.SHA256, []byte(text)
	if a == Ed25519 {
		opts = 0
	} else {
		sum := sha256.Sum256(content)
		content = sum[:]
	}
	sig, err := p.private.Sign(rand.Reader, content, opts)
	if err != nil {
		panic(err)
	}
	return sig
}

func secret(text string) Key { return Key{Secret: wire.Secret(text), Label: "now"} }

func public(a Algorithm) Key { return Key{PublicKey: pairs()[a].pem, Label: "now"} }

func tokens(t ...any) []Token {
	var all []Token
	for _, v := range t {
		switch v := v.(type) {
		case Kind:
			all = append(all, Token{Kind: v})
		case string:
			all = append(all, Literal(v))
		case Token:
			all = append(all, v)
		}
	}
	return all
}

const header = "Service-Signature"

func preset(name string) Scheme {
	s, ok := Preset(name, header)
	if !ok {
		panic(name)
	}
	return s
}

func families() []family {
	one := func(value string) map[string]string { return map[string]string{header: value} }
	id := FromJSON("/id")
	body := tokens(Body)
	return []family{
		{"stripe", preset("stripe"), secret(textSecret), func(_ string, at time.Time, body []byte) map[string]string {
			return one("t=" + seconds(at) + ",v1=" + hexMAC(seconds(at), ".", string(body)))
		}, true},
		{"paddle", Scheme{Header: header, EventID: id, Parse: Parse{Style: KV, PairSep: ";", Sig: []string{"h1"}, TS: "ts"},
			Timestamp: Timestamp{From: Parsed}, Content: tokens(TS, ":", Body)}, secret(textSecret),
			func(_ string, at time.Time, body []byte) map[string]string {
				return one("ts=" + seconds(at) + ";h1=" + hexMAC(seconds(at), ":", string(body)))
			}, true},
		{"github", Scheme{Header: header, EventID: id, Parse: Parse{Style: Prefixed, Prefix: "sha256="}, Content: body}, secret(textSecret),
			func(_ string, _ time.Time, body []byte) map[string]string {
				return one("sha256=" + hexMAC(string(body)))
			}, false},
		{"github sha1", Scheme{Header: header, EventID: id, Parse: Parse{Style: Prefixed, Prefix: "sha1="}, Content: body, Algorithm: HMACSHA1, AllowWeak: true},
			secret(textSecret), func(_ string, _ time.Time, body []byte) map[string]string {
				return one("sha1=" + hex.EncodeToString(mac(sha1.New, []byte(textSecret), string(body))))
			}, false},
		{"standard", preset("standard"), secret("whsec_" + base64.StdEncoding.EncodeToString(rawKey)),
			func(id string, at time.Time, body []byte) map[string]string {
				sig := base64.StdEncoding.EncodeToString(mac(sha256.New, rawKey, id, ".", seconds(at), ".", string(body)))
				return map[string]string{header: "v1," + sig, "Webhook-Id": id, "Webhook-Timestamp": seconds(at)}
			}, true},
		{"standard ed25519", Scheme{Header: header, EventID: FromHeader("webhook-id"), Parse: Parse{Style: List, ItemPrefix: "v1a,"},
			Timestamp: Timestamp{From: FromHeader("webhook-timestamp")}, Content: tokens(ID, ".", TS, ".", Body),
			Algorithm: Ed25519, Encoding: Base64, KeyEncoding: WhsecBase64},
			Key{PublicKey: "whpk_" + base64.StdEncoding.EncodeToString(pairs()[Ed25519].private.Public().(ed25519.PublicKey)), Label: "now"},
			func(id string, at time.Time, body []byte) map[string]string {
				sig := base64.StdEncoding.EncodeToString(signed(Ed25519, id+"."+seconds(at)+"."+string(body)))
				return map[string]string{header: "v1a," + sig, "Webhook-Id": id, "Webhook-Timestamp": seconds(at)}
			}, true},
		{"shopify", preset("base64"), secret(textSecret), func(_ string, _ time.Time, body []byte) map[string]string {
			return one(b64MAC(string(body)))
		}, false},
		{"solidgate", Scheme{Header: header, EventID: id, Content: body, Algorithm: HMACSHA512, Encoding: Base64}, secret(textSecret),
			func(_ string, _ time.Time, body []byte) map[string]string {
				return one(base64.StdEncoding.EncodeToString(mac(sha512.New, []byte(textSecret), string(body))))
			}, false},
		{"sha384 base64url", Scheme{Header: header, EventID: id, Content: body, Algorithm: HMACSHA384, Encoding: Base64URL}, secret(textSecret),
			func(_ string, _ time.Time, body []byte) map[string]string {
				return one(base64.RawURLEncoding.EncodeToString(mac(sha512.New384, []byte(textSecret), string(body))))
			}, false},
		{"slack", preset("slack"), secret(textSecret), func(_ string, at time.Time, body []byte) map[string]string {
			return map[string]string{header: "v0=" + hexMAC("v0:", seconds(at), ":", string(body)), "X-Slack-Request-Timestamp": seconds(at)}
		}, true},
		{"podium", Scheme{Header: header, EventID: id, Timestamp: Timestamp{From: FromHeader("Service-Timestamp"), Unit: Milliseconds}, Content: tokens(TS, ".", Body)},
			secret(textSecret), func(_ string, at time.Time, body []byte) map[string]string {
				return map[string]string{header: hexMAC(millis(at), ".", string(body)), "Service-Timestamp": millis(at)}
			}, true},
		{"zendesk", Scheme{Header: header, EventID: id, Timestamp: Timestamp{From: FromHeader("Service-Signature-Timestamp"), Unit: ISO8601}, Content: tokens(TS, Body), Encoding: Base64},
			secret(textSecret), func(_ string, at time.Time, body []byte) map[string]string {
				text := at.Format(time.RFC3339)
				return map[string]string{header: b64MAC(text, string(body)), "Service-Signature-Timestamp": text}
			}, true},
		{"plain hex", preset("hex"), secret(textSecret), func(_ string, _ time.Time, body []byte) map[string]string {
			return one(hexMAC(string(body)))
		}, false},
		{"plain hex, hex key", Scheme{Header: header, EventID: id, Content: body, KeyEncoding: KeyHex}, secret(hex.EncodeToString(rawKey)),
			func(_ string, _ time.Time, body []byte) map[string]string {
				return one(hex.EncodeToString(mac(sha256.New, rawKey, string(body))))
			}, false},
		{"plain hex, key without its prefix", Scheme{Header: header, EventID: id, Content: body, KeyEncoding: TextWithoutPrefix}, secret("key_sEcret-text"),
			func(_ string, _ time.Time, body []byte) map[string]string {
				return one(hex.EncodeToString(mac(sha256.New, []byte("sEcret-text"), string(body))))
			}, false},
		{"hubspot", Scheme{Header: header, EventID: id, Timestamp: Timestamp{From: FromHeader("Service-Request-Timestamp"), Unit: Milliseconds},
			Content: tokens(Method, URL, Body, TS), Encoding: Base64, PublicURL: endpoint}, secret(textSecret),
			func(_ string, at time.Time, body []byte) map[string]string {
				return map[string]string{header: b64MAC("POST", endpoint, string(body), millis(at)), "Service-Request-Timestamp": millis(at)}
			}, true},
		{"square", Scheme{Header: header, EventID: id, Content: tokens(URL, Body), Encoding: Base64, PublicURL: endpoint}, secret(textSecret),
			func(_ string, _ time.Time, body []byte) map[string]string { return one(b64MAC(endpoint, string(body))) }, false},
		{"worldpay", Scheme{Header: header, EventID: id, Parse: Parse{Style: Template, Template: "{key_id}/SHA256/{sig}", Sep: ","}, Content: body}, secret(textSecret),
			func(_ string, _ time.Time, body []byte) map[string]string {
				return one("1/SHA256/" + hexMAC(string(body)))
			}, false},
		{"discord", Scheme{Header: header, EventID: id, Timestamp: Timestamp{From: FromHeader("X-Signature-Timestamp")}, Content: tokens(TS, Body), Algorithm: Ed25519, KeyEncoding: KeyHex},
			Key{PublicKey: fmt.Sprintf("%x", []byte(pairs()[Ed25519].private.Public().(ed25519.PublicKey))), Label: "now"},
			func(_ string, at time.Time, body []byte) map[string]string {
				return map[string]string{header: hex.EncodeToString(signed(Ed25519, seconds(at)+string(body))), "X-Signature-Timestamp": seconds(at)}
			}, true},
		{"sendgrid", Scheme{Header: header, EventID: id, Timestamp: Timestamp{From: FromHeader("Service-Webhook-Timestamp")}, Content: tokens(TS, Body), Algorithm: ECDSAP256, Encoding: Base64},
			public(ECDSAP256), func(_ string, at time.Time, body []byte) map[string]string {
				return map[string]string{header: base64.StdEncoding.EncodeToString(signed(ECDSAP256, seconds(at)+string(body))), "Service-Webhook-Timestamp": seconds(at)}
			}, true},
		{"bridge", Scheme{Header: header, EventID: id, Parse: Parse{Style: KV, Sig: []string{"v0"}, TS: "t"}, Timestamp: Timestamp{From: Parsed, Unit: Milliseconds},
			Content: tokens(Token{Kind: SHA256Raw, Of: tokens(TS, ".", Body)}), Algorithm: RSASHA256, Encoding: Base64},
			public(RSASHA256), func(_ string, at time.Time, body []byte) map[string]string {
				sum := sha256.Sum256([]byte(millis(at) + "." + string(body)))
				return one("t=" + millis(at) + ",v0=" + base64.StdEncoding.EncodeToString(signed(RSASHA256, string(sum[:]))))
			}, true},
	}
}

func bodyOf(id string) []byte {
	return []byte(`{"id":"` + id + `","type":"invoice.paid","data":{"id":7,"total":"120.00","note":"a/b é"}}`)
}

func (f family) delivery(id string, at time.Time) Delivery {
	body := bodyOf(id)
	d := Delivery{Method: "POST", Path: "/webhooks/main", Header: map[string][]string{
		"Content-Type": {"application/json"}, "User-Agent": {"Service/1.0"}, "Content-Length": {strconv.Itoa(len(body))},
	}, Body: body}
	for name, value := range f.sign(id, at, body) {
		d.Header[textproto.CanonicalMIMEHeaderKey(name)] = []string{value}
	}
	return d
}

func (f family) verifier(t testing.TB, keys ...Key) *Verifier {
	t.Helper()
	if keys == nil {
		keys = []Key{f.key}
	}
	v, err := Compile([]Scheme{f.scheme}, keys)
	require.NoError(t, err, f.name)
	return v
}

func TestEveryFamilyVerifies(t *testing.T) {
	require.GreaterOrEqual(t, len(families()), 14)
	for _, f := range families() {
		t.Run(f.name, func(t *testing.T) {
			v := f.verifier(t)
			for i := range 5 {
				id := fmt.Sprintf("evt_%d", i)
				got, err := v.Verify(received, f.delivery(id, received.Add(-time.Second)))
				require.NoError(t, err)
				require.Equal(t, "now", got.SecretLabel)
				require.Equal(t, f.timed, !got.Time.IsZero())
				require.Equal(t, id, got.EventID)
			}
		})
	}
}
