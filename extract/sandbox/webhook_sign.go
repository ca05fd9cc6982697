package sandbox

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Scheme is the way to sign deliveries, always with HMAC-SHA256.
type Scheme string

// The schemes.
const (
	Stripe   Scheme = "stripe"   // t=<s>,v1=<hex> over "t.body"
	Hex      Scheme = "hex"      // hex over the body
	Base64   Scheme = "base64"   // base64 over the body
	Standard Scheme = "standard" // Standard Webhooks: v1,<base64> over "id.t.body", with the bytes that whsec_… encodes
	Slack    Scheme = "slack"    // v0=<hex> over "v0:t:body"
)

const signatureHeader = "Service-Signature"

var headers = map[Scheme]struct{ id, time string }{
	Standard: {"Webhook-Id", "Webhook-Timestamp"},
	Slack:    {"", "X-Slack-Request-Timestamp"},
}

func (s Scheme) check(secret string) error {
	switch s {
	case Stripe, Hex, Base64, Slack:
	case Standard:
		if _, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_")); err != nil {
			return fmt.Errorf("webhook secret: for the scheme standard, want whsec_ followed by base64: %w", err)
		}
	default:
		return fmt.Errorf("webhook scheme %q: want stripe, hex, base64, standard or slack", s)
	}
	if strings.TrimSpace(secret) == "" {
		return fmt.Errorf("webhook secret is empty")
	}
	return nil
}

func (w *Webhook) sign(h http.Header, id string, at time.Time, body []byte) {
	own := headers[w.Scheme]
	seconds := strconv.FormatInt(at.Unix(), 10)
	if own.id != "" {
		h.Set(own.id, id)
	}
	if own.time != "" {
		h.Set(own.time, seconds)
	}
	h.Set(cmp.Or(w.Header, signatureHeader), w.signature(id, seconds, body))
}

func (w *Webhook) signature(id, seconds string, body []byte) string {
	key := []byte(w.Secret)
	switch w.Scheme {
	case Hex:
		return hex.EncodeToString(mac(key, body))
	case Base64:
		return base64.StdEncoding.EncodeToString(mac(key, body))
	case Standard:
		key, _ = base64.StdEncoding.DecodeString(strings.TrimPrefix(w.Secret, "whsec_")) // check has tested the secret
		return "v1," + base64.StdEncoding.EncodeToString(mac(key, []byte(id+"."+seconds+"."), body))
	case Slack:
		return "v0=" + hex.EncodeToString(mac(key, []byte("v0:"+seconds+":"), body))
	}
	return "t=" + seconds + ",v1=" + hex.EncodeToString(mac(key, []byte(seconds+"."), body))
}

func mac(key []byte, parts ...[]byte) []byte {
	m := hmac.New(sha256.New, key)
	for _, p := range parts {
		m.Write(p)
	}
	return m.Sum(nil)
}
