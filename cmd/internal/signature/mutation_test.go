package signature

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// mutation alters a delivery, which must then be refused. The function spoil returns false if the mutation does not
// apply to the family.
type mutation struct {
	name  string
	spoil func(f family, d *Delivery) bool
	want  []Reason
}

func sigOf(f family, d *Delivery) (value string, from, to int) {
	var r fields
	value = d.Header[header][0]
	p := f.scheme.filled().Parse
	if !p.parse(value, &r) {
		panic("the test's own header cannot be read")
	}
	from = strings.Index(value, r.sigs[0])
	return value, from, from + len(r.sigs[0])
}

func resign(f family, d *Delivery, change func(sig string) string) bool {
	value, from, to := sigOf(f, d)
	now := value[:from] + change(value[from:to]) + value[to:]
	d.Header[header] = []string{now}
	return now != value
}

func decodedSig(f family, d *Delivery, change func([]byte) []byte) bool {
	e := f.scheme.filled().Encoding
	return resign(f, d, func(sig string) string {
		raw, ok := e.appendDecoded(nil, sig)
		if !ok {
			panic("the test's own signature cannot be decoded")
		}
		return e.text(change(raw))
	})
}

func (e Encoding) text(raw []byte) string {
	switch e {
	case Base64:
		return base64.StdEncoding.EncodeToString(raw)
	case Base64URL:
		return base64.RawURLEncoding.EncodeToString(raw)
	}
	return hex.EncodeToString(raw)
}

func flip(b []byte, bit int) []byte {
	b = bytes.Clone(b)
	b[bit/8] ^= 1 << (bit % 8)
	return b
}

var (
	broken    = []Reason{Malformed, Missing}
	unmatched = []Reason{Mismatch}
	either    = []Reason{Mismatch, Malformed}
)

func mutations() []mutation {
	body := func(change func([]byte) []byte) func(family, *Delivery) bool {
		return func(_ family, d *Delivery) bool {
			was := d.Body
			d.Body = change(bytes.Clone(d.Body))
			return !bytes.Equal(was, d.Body)
		}
	}
	value := func(change func(string) string) func(family, *Delivery) bool {
		return func(_ family, d *Delivery) bool {
			was := d.Header[header][0]
			d.Header[header] = []string{change(was)}
			return was != d.Header[header][0]
		}
	}
	sig := func(change func(string) string) func(family, *Delivery) bool {
		return func(f family, d *Delivery) bool { return resign(f, d, change) }
	}
	raw := func(change func([]byte) []byte) func(family, *Delivery) bool {
		return func(f family, d *Delivery) bool { return decodedSig(f, d, change) }
	}
	return []mutation{
		{"body: first bit", body(func(b []byte) []byte { return flip(b, 0) }), unmatched},
		{"body: a bit in the middle", body(func(b []byte) []byte { return flip(b, 4*len(b)) }), unmatched},
		{"body: last bit", body(func(b []byte) []byte { return flip(b, 8*len(b)-1) }), unmatched},
		{"body: without its last byte", body(func(b []byte) []byte { return b[:len(b)-1] }), unmatched},
		{"body: without its first byte", body(func(b []byte) []byte { return b[1:] }), unmatched},
		{"body: with a line break", body(func(b []byte) []byte { return append(b, '\n') }), unmatched},
		{"body: with a zero byte", body(func(b []byte) []byte { return append(b, 0) }), unmatched},
		{"body: with a byte order mark", body(func(b []byte) []byte { return append([]byte("\xef\xbb\xbf"), b...) }), unmatched},
		{"body: empty", body(func([]byte) []byte { return nil }), unmatched},
		{"body: twice", body(func(b []byte) []byte { return append(b, b...) }), unmatched},
		{"body: rewritten with escaped slashes", body(func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("/"), []byte(`\/`)) }), unmatched},
		{"body: rewritten with escaped letters", body(func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("é"), []byte(`\u00e9`)) }), unmatched},
		{"body: rewritten with blanks", body(func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(":"), []byte(": ")) }), unmatched},
		{"body: of another event", body(func(b []byte) []byte { return bodyOf("evt_other") }), unmatched},

		{"signature: first bit", raw(func(b []byte) []byte { return flip(b, 0) }), either},
		{"signature: a bit in the middle", raw(func(b []byte) []byte { return flip(b, 4*len(b)) }), unmatched},
		{"signature: last bit", raw(func(b []byte) []byte { return flip(b, 8*len(b)-1) }), unmatched},
		{"signature: zeros", raw(func(b []byte) []byte { return make([]byte, len(b)) }), unmatched},
		{"signature: without its last byte", raw(func(b []byte) []byte { return b[:len(b)-1] }), either},
		{"signature: with a zero byte", raw(func(b []byte) []byte { return append(b, 0) }), either},
		{"signature: half of it", raw(func(b []byte) []byte { return b[:len(b)/2] }), either},
		{"signature: of one byte", raw(func(b []byte) []byte { return b[:1] }), broken},
		{"signature: backwards", raw(func(b []byte) []byte {
			var back []byte
			for i := range b {
				back = append(back, b[len(b)-1-i])
			}
			return back
		}), unmatched},
		{"signature: upper case", sig(strings.ToUpper), either},
		{"signature: an invalid character", sig(func(s string) string { return "!" + s[1:] }), broken},
		{"signature: a blank before", sig(func(s string) string { return " " + s }), broken},
		{"signature: a blank after", sig(func(s string) string { return s + " " }), broken},
		{"signature: with an equals sign", sig(func(s string) string { return s + "=" }), broken},
		{"signature: a line break within", sig(func(s string) string { return s[:4] + "\r\n" + s[4:] }), broken},
		{"signature: missing", sig(func(string) string { return "" }), broken},
		{"signature: of another body", func(f family, d *Delivery) bool {
			d.Header[header] = f.delivery("evt_other", received).Header[header]
			return true
		}, unmatched},

		{"header: missing", func(_ family, d *Delivery) bool { delete(d.Header, header); return true }, []Reason{Missing}},
		{"header: empty", value(func(string) string { return "" }), []Reason{Missing}},
		{"header: twice", func(_ family, d *Delivery) bool {
			d.Header[header] = append(d.Header[header], d.Header[header][0])
			return true
		}, []Reason{Malformed}},
		{"header: two, joined by a proxy", value(func(v string) string { return v + ", " + v }), broken},
		{"header: 10 kB", value(func(v string) string { return v + strings.Repeat("a", 10_000) }), broken},
		{"header: nine signatures", func(f family, d *Delivery) bool {
			v, p := d.Header[header][0], f.scheme.filled().Parse
			sep := p.Sep
			if p.Style == KV {
				sep = p.PairSep
				_, from, to := sigOf(f, d)
				d.Header[header] = []string{v + strings.Repeat(sep+p.Sig[0]+p.KVSep+v[from:to], maxSignatures)}
				return true
			}
			d.Header[header] = []string{v + strings.Repeat(sep+v, maxSignatures)}
			return true
		}, broken},
		{"header: not ASCII", value(func(v string) string { return v + "é" }), broken},
		{"header: junk", value(func(string) string { return "Bearer 0123456789" }), broken},
		{"secret: wrong", nil, unmatched},
	}
}

func TestEveryMutationIsRefused(t *testing.T) {
	require.Len(t, mutations(), 40)
	refused := 0
	for _, f := range families() {
		for _, m := range mutations() {
			d, verifier := f.delivery("evt_1", received), f.verifier(t)
			_, err := verifier.Verify(received, d)
			require.NoError(t, err, f.name)
			if m.spoil == nil {
				verifier = f.verifier(t, f.other())
			} else if !m.spoil(f, &d) {
				require.Equal(t, "signature: upper case", m.name, "%s: nothing was changed", f.name)
				continue
			}
			_, err = verifier.Verify(received, d)
			reason, _ := err.(Reason)
			require.Contains(t, m.want, reason, "%s, %s: %v", f.name, m.name, d.Header[header])
			refused++
		}
	}
	t.Logf("%d mutations of %d families refused", refused, len(families()))
	require.GreaterOrEqual(t, refused, 40*len(families())-len(families()))
}

func (f family) other() Key {
	k := f.key
	switch {
	case k.Secret == "":
		k = otherPublic(f.scheme)
	case f.scheme.KeyEncoding == WhsecBase64:
		k.Secret = "whsec_b3RoZXItc2VjcmV0LW90aGVyLXNlY3JldA=="
	case f.scheme.KeyEncoding == KeyHex:
		k.Secret = "00112233445566778899aabbccddeeff"
	default:
		k.Secret = "whsec_another"
	}
	return k
}

func TestEverySignedPartIsVerified(t *testing.T) {
	for _, f := range families() {
		signed := f.delivery("evt_1", received)
		for name, values := range signed.Header {
			if name == header || name == "Content-Type" || name == "User-Agent" || name == "Content-Length" {
				continue
			}
			for what, change := range map[string]func() []string{
				"changed": func() []string { return []string{values[0][:len(values[0])-1] + "x"} },
				"empty":   func() []string { return []string{""} },
				"gone":    func() []string { return nil },
				"twice":   func() []string { return []string{values[0], values[0]} },
			} {
				d := f.delivery("evt_1", received)
				d.Header[header] = signed.Header[header]
				d.Header[name] = change()
				_, err := f.verifier(t).Verify(received, d)
				want := map[string]Reason{"changed": Mismatch, "empty": Incomplete, "gone": Incomplete, "twice": Malformed}[what]
				require.Equal(t, want, err, "%s: %s %s", f.name, name, what)
			}
		}
		if uses(f.scheme.Content, Method) {
			d := f.delivery("evt_1", received)
			d.Method = "PUT"
			_, err := f.verifier(t).Verify(received, d)
			require.Equal(t, Mismatch, err)
		}
		if uses(f.scheme.Content, URL) {
			d := f.delivery("evt_1", received)
			d.Query = "a=b"
			_, err := f.verifier(t).Verify(received, d)
			require.Equal(t, Mismatch, err)
		}
	}
}

// A signed time may be 300 seconds old, or 60 seconds in the future, and not one second more. This holds for the
// time units of every family.
func TestTimestampWindow(t *testing.T) {
	for _, f := range families() {
		if !f.timed {
			continue
		}
		for _, tt := range []struct {
			off  time.Duration
			want Reason
		}{
			{-301 * time.Second, Old}, {-300 * time.Second, ""}, {-299 * time.Second, ""}, {0, ""},
			{59 * time.Second, ""}, {60 * time.Second, ""}, {61 * time.Second, Early}, {-24 * time.Hour, Old}, {24 * time.Hour, Early},
		} {
			_, err := f.verifier(t).Verify(received, f.delivery("evt_1", received.Add(tt.off)))
			if tt.want == "" {
				require.NoError(t, err, "%s %s", f.name, tt.off)
				continue
			}
			require.Equal(t, tt.want, err, "%s %s", f.name, tt.off)
		}
	}
}

func TestTimestampText(t *testing.T) {
	now := seconds(received)
	for _, tt := range []struct {
		unit Unit
		text string
		want Reason
	}{
		{Seconds, now, ""}, {Seconds, "0" + now, ""},
		{Seconds, millis(received), Early}, {Milliseconds, now, Old}, {Milliseconds, millis(received), ""},
		{Seconds, "0", Old}, {Seconds, "9223372036854775807", Early}, {Seconds, "9223372036854775808", Old},
		{Milliseconds, "9223372036854775807", Early}, {Milliseconds, "9223372036854775808", Old},
		{Seconds, "text", Old}, {Seconds, now + ".5", Old}, {Seconds, "-" + now, Old}, {Seconds, "+" + now, Old}, {Seconds, now + "e0", Old}, {Seconds, "0x69", Old},
		{Seconds, received.Format(time.RFC3339), Old},
		{ISO8601, received.Format(time.RFC3339), ""}, {ISO8601, "2026-11-21T13:00:00.25+01:00", ""}, {ISO8601, "2026-11-21 12:00:00", Old}, {ISO8601, now, Old},
	} {
		s := Scheme{Name: "s", Header: header, Parse: Parse{Style: KV, Sig: []string{"v1"}, TS: "t"}, Timestamp: Timestamp{From: Parsed, Unit: tt.unit}, Content: tokens(TS, ".", Body)}
		v, err := Compile([]Scheme{s}, []Key{secret(textSecret)})
		require.NoError(t, err)
		d := Delivery{Header: map[string][]string{header: {"t=" + tt.text + ",v1=" + hexMAC(tt.text, ".", "{}")}}, Body: []byte("{}")}
		_, err = v.Verify(received, d)
		if tt.want == "" {
			require.NoError(t, err, tt.text)
			continue
		}
		require.Equal(t, tt.want, err, "%s as %s", tt.text, tt.unit)
		// A forger who sends the same time learns nothing about it.
		d.Body = []byte("[]")
		_, err = v.Verify(received, d)
		require.Equal(t, Mismatch, err)
	}
}

func TestSecretsRotate(t *testing.T) {
	end := received.Add(time.Hour)
	keys := []Key{{Secret: "new", Label: "2026-11"}, {Secret: "old", Label: "2026-08", NotAfter: end}}
	v, err := Compile([]Scheme{preset("stripe")}, keys)
	require.NoError(t, err)
	at := func(now time.Time, secrets ...string) (string, error) {
		var sigs []string
		for _, s := range secrets {
			m := mac256(s, seconds(now), ".", "{}")
			sigs = append(sigs, "v1="+m)
		}
		got, err := v.Verify(now, Delivery{Header: map[string][]string{header: {"t=" + seconds(now) + "," + strings.Join(sigs, ",")}}, Body: []byte("{}")})
		return got.SecretLabel, err
	}
	for _, tt := range []struct {
		now     time.Time
		secrets []string
		label   string
		err     error
	}{
		{received, []string{"new"}, "2026-11", nil},
		{received, []string{"old"}, "2026-08", nil},
		{received, []string{"old", "new"}, "2026-11", nil},
		{received, []string{"new", "old"}, "2026-11", nil},
		{received, []string{"gone", "old"}, "2026-08", nil},
		{received, []string{"gone"}, "", Mismatch},
		{end.Add(-time.Second), []string{"old"}, "2026-08", nil},
		{end, []string{"old"}, "", Expired},
		{end.Add(time.Second), []string{"old"}, "", Expired},
		{end.Add(time.Second), []string{"old", "new"}, "2026-11", nil},
		{end.Add(time.Second), []string{"gone", "old"}, "", Expired},
	} {
		label, err := at(tt.now, tt.secrets...)
		require.Equal(t, tt.label, label, "%v", tt)
		require.Equal(t, tt.err, err, "%v", tt)
	}
	for i := range 1000 { // while both secrets are valid, no delivery is refused
		now := received.Add(time.Duration(i) * 3 * time.Second)
		_, err := at(now, "new", "old")
		require.NoError(t, err)
	}
}

func TestCompileRefusesEmptyKeys(t *testing.T) {
	for _, k := range []Key{{}, {Secret: ""}, {Secret: " \t"}} {
		_, err := Compile([]Scheme{preset("hex")}, []Key{k})
		require.Error(t, err)
	}
	_, err := Compile([]Scheme{preset("standard")}, []Key{{Secret: "whsec_"}})
	require.ErrorContains(t, err, "is empty")
	_, err = Compile([]Scheme{preset("hex")}, nil)
	require.ErrorContains(t, err, "no key for hmac-sha256")
	_, err = Compile(nil, []Key{secret("a")})
	require.Error(t, err)
	_, err = Compile([]Scheme{{Header: "S", Content: tokens(Body), Algorithm: Ed25519}}, []Key{{PublicKey: "canary_canary"}})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "canary")
}

// If several schemes match, the first gives the verdict. If no scheme matches, the reason comes from the scheme for
// which the delivery passed the most checks.
func TestVerifyTriesEachScheme(t *testing.T) {
	v, err := Compile([]Scheme{preset("stripe"), preset("hex"), preset("base64")}, []Key{secret(textSecret)})
	require.NoError(t, err)
	for _, f := range families() {
		want := map[string]string{"stripe": "stripe", "plain hex": "hex", "shopify": "base64"}[f.name]
		got, err := v.Verify(received, f.delivery("evt_1", received))
		require.Equal(t, want, got.Scheme, f.name)
		require.Equal(t, want == "", err != nil, f.name)
	}
	_, err = v.Verify(received, families()[0].delivery("evt_1", received.Add(-time.Hour)))
	require.Equal(t, Old, err)
}

func TestReasonsAreClosed(t *testing.T) {
	require.Len(t, Reasons(), 7)
	for i, r := range Reasons() {
		require.NotEmpty(t, r.Error())
		require.Equal(t, i, r.rank())
	}
}

func mac256(key string, parts ...string) string {
	return fmt.Sprintf("%x", mac(sha256.New, []byte(key), parts...))
}

func TestRandomMutationsAreRefused(t *testing.T) {
	tried := 0
	for i, f := range families() {
		v := f.verifier(t)
		good := f.delivery("evt_1", received)
		r := mathrand.New(mathrand.NewPCG(uint64(i), 3))
		for range trials(t, 40, 640) {
			d := good
			d.Header = maps.Clone(good.Header)
			value, from, to := sigOf(f, &d)
			switch spoiled := []byte(value); r.IntN(3) {
			case 0:
				d.Body = bytes.Clone(d.Body)
				d.Body[r.IntN(len(d.Body))] ^= byte(1 + r.IntN(255))
			case 1:
				spoiled[from+r.IntN(to-from)] ^= byte(1 + r.IntN(255))
				d.Header[header] = []string{string(spoiled)}
			default: // alter the text before the signature; worldpay has an unsigned key id there
				if from == 0 || f.name == "worldpay" {
					continue
				}
				spoiled[r.IntN(from)] ^= byte(1 + r.IntN(255))
				d.Header[header] = []string{string(spoiled)}
			}
			_, err := v.Verify(received, d)
			reason, closed := err.(Reason)
			require.True(t, closed && reason != "", "%s: %q", f.name, d.Header[header])
			tried++
		}
	}
	t.Logf("%d deliveries refused", tried)
}
