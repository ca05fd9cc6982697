package signature

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReplay(t *testing.T) {
	now := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	stripe, _ := Preset("stripe", "Service-Signature")
	stripe.EventID = FromHeader("X-Delivery-Id")
	signedHeader := stripe
	signedHeader.Content = append([]Token{{Kind: HeaderOf, Text: "x-delivery-id"}, Literal(".")}, stripe.Content...)
	hexed, _ := Preset("hex", "Service-Signature")
	unsigned := hexed
	unsigned.EventID = FromHeader("X-Delivery-Id")
	inBody, _ := Preset("stripe", "Service-Signature")

	id := func(s Scheme, at time.Time, body, header string) string {
		v, err := Compile([]Scheme{s}, []Key{{Label: "1", Secret: textSecret}})
		require.NoError(t, err)
		ts := fmt.Sprint(at.Unix())
		text, form := ts+"."+body, "t="+ts+",v1=%s"
		switch {
		case s.Timestamp.From.nowhere():
			text, form = body, "%s"
		case uses(s.Content, HeaderOf):
			text = header + "." + text
		}
		got, err := v.Verify(now, Delivery{Method: "POST", Path: "/", Body: []byte(body), Header: map[string][]string{
			"Service-Signature": {fmt.Sprintf(form, hexMAC(text))}, "X-Delivery-Id": {header},
		}})
		require.NoError(t, err)
		return got.EventID
	}
	const body, other = `{"type":"contact.updated","n":7}`, `{"type":"contact.updated","n":8}`
	first := id(stripe, now, body, "1")
	require.NotEmpty(t, first)
	require.Equal(t, first, id(stripe, now, body, "2"), "the id in the header is not signed")
	require.NotEqual(t, first, id(stripe, now, other, "1"))
	require.NotEqual(t, first, id(stripe, now.Add(-time.Second), body, "1"), "a second change with the same body")
	require.Equal(t, first, id(inBody, now, body, "1"), "a body without the id")
	require.Equal(t, "evt_1", id(inBody, now, `{"id":"evt_1"}`, "x"), "an id in the body is signed with it")
	require.Equal(t, "1", id(signedHeader, now, body, "1"), "a signed header")
	require.Empty(t, id(unsigned, now, body, "1"), "nothing distinguishes a replay from a second change")
	require.Equal(t, "evt_1", id(hexed, now, `{"id":"evt_1"}`, "x"))

	require.Contains(t, stripe.Replays(), "the id in header:X-Delivery-Id is not signed and is not used")
	require.Contains(t, stripe.Replays(), "recognized by their body and signed time, and refused after 5m")
	require.Contains(t, inBody.Replays(), "recognized by their id (json:/id), and refused after 5m")
	require.Contains(t, hexed.Replays(), "for 90 days; no time is signed")
	require.Contains(t, unsigned.Replays(), "nothing protects")
}
