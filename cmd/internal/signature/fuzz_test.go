package signature

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// oracle is a slow parser of the four simple styles. It was written from their description, without the code
// under test.
func oracle(p Parse, value string) (sigs []string, ts string, ok bool) {
	if len(value) > 4096 {
		return nil, "", false
	}
	for _, c := range []byte(value) {
		if c < 0x20 || c > 0x7e {
			return nil, "", false
		}
	}
	switch p.Style {
	case Bare:
		sigs = []string{value}
	case Prefixed:
		if !strings.HasPrefix(value, p.Prefix) {
			return nil, "", false
		}
		sigs = []string{value[len(p.Prefix):]}
	case List:
		for _, item := range strings.Split(value, p.Sep) {
			switch {
			case item == "":
				return nil, "", false
			case strings.HasPrefix(item, p.ItemPrefix):
				sigs = append(sigs, item[len(p.ItemPrefix):])
			}
		}
	case KV:
		for _, item := range strings.Split(value, p.PairSep) {
			i := strings.Index(item, p.KVSep)
			if i <= 0 || i+len(p.KVSep) == len(item) {
				return nil, "", false
			}
			switch key, v := item[:i], item[i+len(p.KVSep):]; key {
			case "t":
				if ts != "" {
					return nil, "", false
				}
				ts = v
			case "v1":
				sigs = append(sigs, v)
			case "v0":
			default:
				return nil, "", false
			}
		}
	}
	for _, s := range sigs {
		if s == "" {
			return nil, "", false
		}
	}
	return sigs, ts, len(sigs) > 0 && len(sigs) <= 8
}

var grammarsUnderTest = []Parse{
	{Style: Bare}, {Style: Prefixed, Prefix: "sha256="}, {Style: List, ItemPrefix: "v1,"},
	{Style: KV, Sig: []string{"v1"}, TS: "t", Ignore: []string{"v0"}},
}

// FuzzVerify tries any header and body. The parser agrees with a simpler parser, the function oracle. Verify accepts
// only what was signed. Nothing panics.
func FuzzVerify(f *testing.F) {
	at := seconds(received)
	good := hexMAC(at, ".", "{}")
	for _, seed := range []string{
		"", "=", ",", "t=" + at + ",v1=" + good, "t=" + at + ",v1=" + good + ",v0=aa,v1=" + good, "t=" + at + ",t=" + at + ",v1=" + good,
		"sha256=" + hexMAC("{}"), "v1," + good + " v1a,x", hexMAC("{}"), "t=,v1=", strings.Repeat("v1=a,", 20), "1/SHA256/" + good, "\x00", "é",
	} {
		f.Add(seed, []byte("{}"))
	}
	f.Add("t="+at+",v1="+good, []byte(`{"id":"evt_1","data":{"id":[1,{"a":"b"}]}}`))
	var verifiers []*Verifier
	for _, fam := range families() {
		verifiers = append(verifiers, fam.verifier(f))
	}
	f.Fuzz(func(t *testing.T, value string, body []byte) {
		for _, p := range grammarsUnderTest {
			var got fields
			p = p.filled()
			ok := p.parse(value, &got)
			sigs, ts, want := oracle(p, value)
			require.Equal(t, want, ok, "%s: %q", p.Style, value)
			if ok {
				require.Equal(t, sigs, got.sigs[:got.n])
				require.Equal(t, ts, got.ts)
			}
		}
		d := Delivery{Method: "POST", Path: "/", Header: map[string][]string{
			header: {value}, "Webhook-Id": {value}, "Webhook-Timestamp": {at}, "X-Slack-Request-Timestamp": {at},
			"Service-Timestamp": {value}, "Service-Signature-Timestamp": {value}, "X-Signature-Timestamp": {value},
		}, Body: body}
		signed := false // whether value contains a valid signature; the fuzzer cannot find another by chance
		for _, part := range []string{good, hexMAC("{}"), hexMAC(string(body))} {
			signed = signed || strings.Contains(value, part)
		}
		for _, v := range verifiers {
			_, err := v.Verify(received, d)
			reason, closed := err.(Reason)
			require.True(t, err == nil && signed || closed && reason.rank() >= 0, "%q accepted", value)
		}
		for _, path := range [][]string{{"id"}, {"data", "id"}, {"data", "id", "1", "a"}, {""}} {
			text := lookUp(body, path)
			require.True(t, utf8.ValidString(text) || text != "")
		}
		_, _ = Learn([]Sample{{d, received}, {Delivery{Body: nil, Header: d.Header}, received}, {Delivery{Body: append(body, 1), Header: d.Header}, received}}, Hints{Header: header, Keys: []Key{secret(textSecret)}})
	})
}

func TestLookUp(t *testing.T) {
	const doc = `{"a":1,"id":"evt_\u00e9","n":-12.50,"t":true,"z":null,"o":{"id":"in","id2":{}},"l":[{"id":"first"},[7]],"id":"again","/~":"odd"} trailing`
	for pointer, want := range map[string]string{
		"/id": "evt_é", "/n": "-12.50", "/a": "1", "/t": "", "/z": "", "/o": "", "/o/id": "in", "/o/none": "", "/l/0/id": "first", "/l/1/0": "7",
		"/l/1/1": "", "/l/2": "", "/l/-1": "", "/l/00/id": "", "/id/x": "", "/~1~0": "odd", "/none": "",
	} {
		path, ok := pointerOf(pointer)
		require.True(t, ok, pointer)
		require.Equal(t, want, lookUp([]byte(doc), path), pointer)
	}
	for _, bad := range []string{"", "id", "/a~2", "/a~", "/1/2/3/4/5/6/7/8/9"} {
		_, ok := pointerOf(bad)
		require.False(t, ok, bad)
	}
	for _, doc := range []string{"", "null", "[", "{", `{"id"`, `{"id":`, `{"id":"a`, `"id"`, "7"} {
		require.Empty(t, lookUp([]byte(doc), []string{"id"}), doc)
	}
	require.Equal(t, strings.Repeat("a", 5000), lookUp([]byte(`{"id":"`+strings.Repeat("a", 5000)+`"}`), []string{"id"}))
}

func benchmarked(b *testing.B, name string) (*Verifier, Delivery) {
	for _, f := range families() {
		if f.name != name {
			continue
		}
		body := []byte(`{"id":"evt_1","type":"invoice.paid","data":{"note":"` + strings.Repeat("x", 960) + `"}}`)
		d := f.delivery("evt_1", received)
		d.Body = body
		for name, value := range f.sign("evt_1", received, body) {
			d.Header[canonical(name)] = []string{value}
		}
		return f.verifier(b), d
	}
	b.Fatal(name)
	return nil, Delivery{}
}

func BenchmarkVerify(b *testing.B) {
	for _, name := range []string{"stripe", "plain hex", "shopify", "standard", "worldpay", "solidgate", "discord", "sendgrid", "bridge"} {
		b.Run(name, func(b *testing.B) {
			v, d := benchmarked(b, name)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := v.Verify(received, d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRefuse measures how long a refusal takes for different numbers of correct bytes in the signature. The
// times must be equal, apart from noise.
func BenchmarkRefuse(b *testing.B) {
	v, d := benchmarked(b, "plain hex")
	sig, _ := hex.DecodeString(d.Header[header][0])
	for _, right := range []int{0, 1, 8, 16, 31} {
		wrong := append([]byte(nil), sig...)
		wrong[right] ^= 1
		for i := right + 1; i < len(wrong); i++ {
			wrong[i] = ^sig[i]
		}
		b.Run(fmt.Sprintf("right_%d", right), func(b *testing.B) {
			d := d
			d.Header = map[string][]string{header: {hex.EncodeToString(wrong)}}
			for b.Loop() {
				if _, err := v.Verify(received, d); err != Mismatch {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkLearn(b *testing.B) {
	f := families()[0]
	samples := f.samples(100)
	for b.Loop() {
		if _, err := Learn(samples, f.hints()); err != nil {
			b.Fatal(err)
		}
	}
}
