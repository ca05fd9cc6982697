package signature

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func (f family) samples(n int) []Sample {
	var all []Sample
	for i := range n {
		at := received.Add(time.Duration(i) * 47 * time.Second)
		all = append(all, Sample{f.delivery(fmt.Sprintf("evt_%d", 1000+i), at.Add(-time.Second)), at})
	}
	return all
}

func (f family) hints() Hints {
	return Hints{Header: header, Keys: []Key{f.key}, PublicURL: endpoint, AllowWeak: f.scheme.AllowWeak}
}

func (f family) same(t *testing.T, got Scheme) {
	t.Helper()
	want := f.scheme.filled()
	require.Equal(t, tokenList(want.Content), tokenList(got.Content), f.name)
	require.Equal(t, want.Algorithm, got.Algorithm, f.name)
	require.Equal(t, want.Encoding, got.Encoding, f.name)
	require.Equal(t, want.Timestamp.Unit, or(got.Timestamp.Unit, Seconds), f.name)
	require.True(t, strings.EqualFold(string(want.Timestamp.From), string(got.Timestamp.From)), "%s: %s", f.name, got.Timestamp.From)
	require.Equal(t, want.KeyEncoding, got.KeyEncoding, f.name)
	require.Equal(t, want.Parse.Style, got.Parse.Style, f.name)
	require.Empty(t, got.Faults())
}

func TestLearnFindsEveryFamily(t *testing.T) {
	for _, f := range families() {
		t.Run(f.name, func(t *testing.T) {
			got, err := Learn(f.samples(3), f.hints())
			require.NoError(t, err, "%+v", got)
			f.same(t, got.Scheme)
			require.Equal(t, f.timed, got.Timed())
			require.Equal(t, 3, got.Judged)
			require.Equal(t, 3, got.Bodies)
			require.Zero(t, got.Late)
			require.Equal(t, "now", got.Label)

			v, err := Compile([]Scheme{got.Scheme}, []Key{f.key})
			require.NoError(t, err)
			verdict, err := v.Verify(received, f.delivery("evt_later", received))
			require.NoError(t, err)
			require.Equal(t, "evt_later", verdict.EventID)
			for _, m := range mutations() {
				d := f.delivery("evt_1", received)
				if m.spoil == nil || !m.spoil(f, &d) {
					continue
				}
				_, err := v.Verify(received, d)
				require.Error(t, err, m.name)
			}
			t.Logf("%d candidates", got.Tried)
		})
	}
}

func TestLearnAmongKeysAndHeaders(t *testing.T) {
	for _, f := range families() {
		h := f.hints()
		h.Keys = []Key{{Secret: "whsec_b3RoZXItc2VjcmV0LW90aGVyLXNlY3JldA==", Label: "wrong"}, otherPublic(Scheme{Algorithm: ECDSAP256}), f.key}
		h.Keys[2].Label = "right"
		h.Header = "Platform-Signature"
		got, err := Learn(f.samples(3), h)
		require.NoError(t, err, f.name)
		require.Equal(t, header, got.Scheme.Header, f.name)
		require.Equal(t, "right", got.Label, f.name)
		f.same(t, got.Scheme)
	}
}

func TestLearnNeedsThreeBodies(t *testing.T) {
	for _, f := range families() {
		for n := range 3 {
			_, err := Learn(f.samples(n), f.hints())
			require.ErrorIs(t, err, ErrFew)
		}
		again := append(f.samples(2), f.samples(2)...)
		got, err := Learn(again, f.hints())
		require.ErrorIs(t, err, ErrFew, f.name)
		require.Equal(t, 2, got.Bodies)
	}
}

func TestLearnFindsNothing(t *testing.T) {
	spoils := map[string]func(f family, s *Sample, i int){
		"a body rewritten by a proxy": func(_ family, s *Sample, _ int) {
			s.Body = bytes.ReplaceAll(s.Body, []byte(":"), []byte(": "))
		},
		"escapes rewritten by a proxy": func(_ family, s *Sample, _ int) {
			s.Body = bytes.ReplaceAll(s.Body, []byte("é"), []byte(`\u00e9`))
		},
		"a signature over a part of the body": func(f family, s *Sample, _ int) {
			part := s.Body[bytes.Index(s.Body, []byte(`"data":`))+7 : len(s.Body)-1]
			for name, value := range f.sign("evt_x", s.Received, part) {
				s.Header[canonical(name)] = []string{value}
			}
		},
		"a signature over nothing": func(f family, s *Sample, _ int) {
			for name, value := range f.sign("evt_x", s.Received, nil) {
				s.Header[canonical(name)] = []string{value}
			}
		},
		"the signature of another delivery": func(f family, s *Sample, i int) {
			s.Header = f.delivery(fmt.Sprintf("evt_other_%d", i), s.Received).Header
		},
		"a random header": func(_ family, s *Sample, i int) {
			s.Header[header] = []string{randomHeader(mathrand.New(mathrand.NewPCG(uint64(i), 1)))}
		},
		"no header": func(_ family, s *Sample, _ int) { delete(s.Header, header) },
	}
	for _, f := range families() {
		h := f.hints()
		h.Keys = []Key{f.other()}
		_, err := Learn(f.samples(4), h)
		require.ErrorIs(t, err, ErrNone, "%s: wrong secret", f.name)
		for name, spoil := range spoils {
			all := f.samples(4)
			for i := range all {
				all[i].Header = maps.Clone(all[i].Header)
				spoil(f, &all[i], i)
			}
			_, err := Learn(all, f.hints())
			require.ErrorIs(t, err, ErrNone, "%s: %s", f.name, name)

			one := f.samples(4)
			one[2].Header = maps.Clone(one[2].Header)
			spoil(f, &one[2], 2)
			got, err := Learn(one, f.hints())
			if name == "no header" { // Learn does not try such a sample, and counts it in Aside
				require.NoError(t, err)
				require.Equal(t, 1, got.Aside)
				continue
			}
			require.ErrorIs(t, err, ErrNone, "%s: %s, once", f.name, name)
			require.Equal(t, 3, got.Partial, "%s: %s, once", f.name, name)
			require.Equal(t, []int{2}, got.Failing)
		}
	}
}

// Two signatures with the same secret but different signed contents are ambiguous.
func TestLearnAmbiguous(t *testing.T) {
	f := families()[0]
	all := f.samples(3)
	for i := range all {
		all[i].Header[header][0] += ",v0=" + hexMAC(string(all[i].Body))
	}
	got, err := Learn(all, f.hints())
	require.ErrorIs(t, err, ErrAmbiguous)
	require.Len(t, got.Others, 2)
	require.Equal(t, Scheme{}, got.Scheme)
}

func TestLearnIgnoresOtherKeys(t *testing.T) {
	f := families()[0]
	all := f.samples(3)
	for i := range all {
		all[i].Header[header][0] += ",v0=" + strings.Repeat("0f", 32)
	}
	all[1].Header[header][0] += ",env=live"
	got, err := Learn(all, f.hints())
	require.NoError(t, err)
	require.Equal(t, []string{"v1"}, got.Scheme.Parse.Sig)
	require.Equal(t, []string{"env", "v0"}, got.Scheme.Parse.Ignore)
}

// Each event has a different id. The id of the account is the same in all events, so Learn does not take it as the
// event id.
func TestLearnPicksADistinctID(t *testing.T) {
	f := families()[12]
	require.Equal(t, "plain hex", f.name)
	var all []Sample
	for i := range 3 {
		body := fmt.Appendf(nil, `{"id":"acct_1","n":%d}`, i)
		all = append(all, Sample{Delivery{Method: "POST", Path: "/", Body: body, Header: map[string][]string{
			header: {hexMAC(string(body))}, "X-Delivery-Id": {strconv.Itoa(i)}, "X-Account-Id": {"1"},
		}}, received})
	}
	got, err := Learn(all, f.hints())
	require.NoError(t, err)
	require.Equal(t, None, got.Scheme.EventID, "an unsigned header is not an event id")
}

func TestLearnReportsLateSamples(t *testing.T) {
	f := families()[0]
	all := f.samples(3)
	all[1].Received = all[1].Received.Add(time.Hour)
	got, err := Learn(all, f.hints())
	require.NoError(t, err)
	require.Equal(t, 1, got.Late)
}

func TestLearnRefusesWeak(t *testing.T) {
	f := families()[3]
	h := f.hints()
	h.AllowWeak = false
	_, err := Learn(f.samples(3), h)
	require.ErrorIs(t, err, ErrNone)
}

func trials(t *testing.T, few, many int) int {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv("PENSTOCK_TEST_TRIALS")); err == nil {
		return n
	}
	if testing.Short() {
		return few
	}
	return many
}

func randomHeader(r *mathrand.Rand) string {
	raw := make([]byte, []int{16, 20, 32, 32, 32, 48, 64}[r.IntN(7)])
	for i := range raw {
		raw[i] = byte(r.Uint32())
	}
	sig := hex.EncodeToString(raw)
	if r.IntN(2) == 0 {
		sig = base64.StdEncoding.EncodeToString(raw)
	}
	ts := strconv.FormatInt(received.Unix()+int64(r.IntN(100)), 10)
	switch r.IntN(8) {
	case 0:
		return "t=" + ts + ",v1=" + sig
	case 1:
		return "sha256=" + sig
	case 2:
		return "v1," + sig + " v1," + sig
	case 3:
		return "ts=" + ts + ";h1=" + sig
	case 4:
		return "1/SHA256/" + sig
	case 5:
		junk := make([]byte, r.IntN(200))
		_, _ = rand.Read(junk)
		return strings.ToValidUTF8(string(junk), "?")
	}
	return sig
}

func TestLearnFindsNothingInRandomHeaders(t *testing.T) {
	h := Hints{Header: header, Keys: []Key{secret(textSecret)}, PublicURL: endpoint, AllowWeak: true}
	tried := 0
	for seed := range trials(t, 200, 10_000) {
		r := mathrand.New(mathrand.NewPCG(uint64(seed), 7))
		var all []Sample
		for i := range 3 {
			d := families()[0].delivery(fmt.Sprintf("evt_%d", i), received)
			d.Header[header] = []string{randomHeader(r)}
			d.Header["X-Timestamp"] = []string{seconds(received)}
			d.Header["X-Request-Id"] = []string{strconv.Itoa(i)}
			all = append(all, Sample{d, received})
		}
		got, err := Learn(all, h)
		require.Error(t, err, "%v", got)
		tried += got.Tried
	}
	t.Logf("%d candidates refused", tried)
}
