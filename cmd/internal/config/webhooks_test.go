package config

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/signature"
)

func withWebhooks(block string) string {
	return strings.Replace(minimal, "token: t}}\n", "token: t}}\n    webhooks: "+block+"\n", 1)
}

func webhooksOf(t *testing.T, block string) *Webhooks {
	t.Helper()
	c := parsed(t, withWebhooks(block))
	return c.Sources[0].Webhooks
}

func TestWebhooksPresets(t *testing.T) {
	for name, headers := range map[string][]string{
		"stripe": {"Service-Signature"}, "hex": {"Service-Signature"}, "base64": {"Service-Signature"},
		"standard": {"Service-Signature", "Webhook-Signature"}, "slack": {"Service-Signature", "X-Slack-Signature"},
	} {
		w := webhooksOf(t, "{secret: whsec_c2VjcmV0LXNlY3JldA==, scheme: "+name+"}")
		require.Equal(t, []signature.Key{{Secret: "whsec_c2VjcmV0LXNlY3JldA==", Label: "1"}}, w.Keys)
		var got []string
		for _, s := range w.Schemes {
			require.Equal(t, name, s.Name)
			got = append(got, s.Header)
		}
		require.Equal(t, headers, got, name)
		w = webhooksOf(t, "{secret: whsec_c2VjcmV0LXNlY3JldA==, scheme: "+name+", header: X-Sig}")
		require.Len(t, w.Schemes, 1)
		require.Equal(t, "X-Sig", w.Schemes[0].Header)
	}
}

func TestWebhooksAreLearnedByDefault(t *testing.T) {
	for _, block := range []string{"{secret: s}", "{secret: s, scheme: learn}", "{secret: s, scheme: learn, header: X-Sig, public_url: 'https://h.example/x'}"} {
		require.Empty(t, webhooksOf(t, block).Schemes)
	}
}

func TestWebhooksBlock(t *testing.T) {
	w := webhooksOf(t, `
      header: X-Default
      schemes:
        - stripe
        - name: pinned-1
          header: Service-Signature
          parse: {style: kv, pair_sep: ", ", kv_sep: "=", sig: [v1], ts: t, id: ~, key_id: ~, ignore: [v0]}
          timestamp: {from: parsed, unit: ms, past: 10m, future: 5s}
          event_id: {from: "json:/id"}
          content: [ts, ".", header:X-Topic, {sha256raw: [id, "-"]}, sha256hex(body), body]
          algorithm: hmac-sha384
          encoding: base64
          key_encoding: text
          public_url: ~
        - {content: [body], algorithm: ed25519, key_encoding: hex, parse: {style: template, template: "k/{key_id}/{sig}", sep: ";"}}
      secrets:
        - {secret: new_hush, label: "2026-11"}
        - {secret: old_hush, label: "2026-08", not_after: 2026-11-30T00:00:00Z}
        - {public_key: d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a, label: ed}`)
	require.Len(t, w.Schemes, 3)
	require.Equal(t, "X-Default", w.Schemes[0].Header)
	require.Equal(t, signature.Scheme{
		Name: "pinned-1", Header: "Service-Signature",
		Parse:     signature.Parse{Style: signature.KV, PairSep: ", ", KVSep: "=", Sig: []string{"v1"}, TS: "t", Ignore: []string{"v0"}},
		Timestamp: signature.Timestamp{From: signature.Parsed, Unit: signature.Milliseconds, Past: 10 * time.Minute, Future: 5 * time.Second},
		EventID:   signature.FromJSON("/id"),
		Content: []signature.Token{{Kind: signature.TS}, signature.Literal("."), {Kind: signature.HeaderOf, Text: "X-Topic"},
			{Kind: signature.SHA256Raw, Of: []signature.Token{{Kind: signature.ID}, signature.Literal("-")}},
			{Kind: signature.SHA256Hex, Of: []signature.Token{{Kind: signature.Body}}}, {Kind: signature.Body}},
		Algorithm: signature.HMACSHA384, Encoding: signature.Base64, KeyEncoding: signature.Text,
	}, w.Schemes[1])
	require.Equal(t, "custom-3", w.Schemes[2].Name)
	require.Equal(t, "X-Default", w.Schemes[2].Header)
	require.Equal(t, time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC), w.Keys[1].NotAfter.UTC())
	require.Equal(t, []string{"2026-11", "2026-08", "ed"}, []string{w.Keys[0].Label, w.Keys[1].Label, w.Keys[2].Label})
	_, err := signature.Compile(w.Schemes, w.Keys)
	require.NoError(t, err)
}

func TestParsePinRoundTrip(t *testing.T) {
	for _, s := range []signature.Scheme{
		{Name: "a", Header: "S", Content: []signature.Token{{Kind: signature.Body}}, EventID: signature.None},
		{Name: "b", Header: "S", Parse: signature.Parse{Style: signature.KV, PairSep: "; ", Sig: []string{"v1", "v2"}, TS: "t", Ignore: []string{"v0"}},
			Timestamp: signature.Timestamp{From: signature.Parsed, Unit: signature.ISO8601}, EventID: signature.FromHeader("X-Id"),
			Content: []signature.Token{signature.Literal("a\"b\\:\n"), {Kind: signature.TS}, {Kind: signature.SHA256Raw, Of: []signature.Token{{Kind: signature.ID}, signature.Literal("."), {Kind: signature.Body}}}}},
		{Name: "c", Header: "S", Parse: signature.Parse{Style: signature.List, ItemPrefix: "v1,"}, PublicURL: "https://h.example/x", AllowWeak: true, Algorithm: signature.HMACSHA1,
			EventID: signature.FromJSON("/id"), Content: []signature.Token{{Kind: signature.URL}, {Kind: signature.SHA256Hex, Of: []signature.Token{{Kind: signature.Body}}}}, KeyEncoding: signature.KeyHex},
		{Name: "d", Header: "S", Parse: signature.Parse{Style: signature.Template, Template: "{key_id}/SHA256/{sig}", Sep: ","}, EventID: signature.None, Content: []signature.Token{{Kind: signature.Body}}},
		{Name: "e", Header: "S", Parse: signature.Parse{Style: signature.Prefixed, Prefix: "sha256="}, EventID: signature.None, Content: []signature.Token{{Kind: signature.Body}}, Encoding: signature.Base64URL},
	} {
		require.Empty(t, s.Faults())
		text := "scheme:\n  " + strings.TrimSpace(strings.ReplaceAll(s.YAML(), "\n", "\n  ")) + "\n"
		got, err := ParsePin("pin.yaml", []byte(text), "Other")
		require.NoError(t, err, text)
		require.Equal(t, s.YAML(), got.YAML())
		require.Empty(t, got.Faults())
		again, err := ParsePin("pin.yaml", []byte("scheme: {"+strings.ReplaceAll(strings.TrimSpace(got.YAML()), "\n", ", ")+"}"), "")
		require.NoError(t, err)
		require.Equal(t, got, again)
	}
	_, err := ParsePin("pin.yaml", []byte("scheme: {content: [body]}\nsecret: x\n"), "S")
	require.ErrorContains(t, err, `pin.yaml:2:1: unknown key "secret"`)
	_, err = ParsePin("pin.yaml", []byte(""), "S")
	require.Error(t, err)
}

// Unverified deliveries have an effect only if the file has both: `unverified: hint`, and streams under `refresh`.
func TestWebhooksUnverified(t *testing.T) {
	require.Empty(t, webhooksOf(t, "{secret: s}").Refresh)
	require.Empty(t, webhooksOf(t, "{secret: s, unverified: ignore}").Refresh)
	require.Equal(t, []string{"v2.contacts", "crm.deals"}, webhooksOf(t, "{secret: s, unverified: hint, refresh: [v2.contacts, crm.deals]}").Refresh)
}

func TestWebhooksFaults(t *testing.T) {
	block := func(keys string) string { return "{secret: s_hush, scheme: {content: [body], " + keys + "}}" }
	for _, tt := range []struct{ name, block, want string }{
		{"no secret", "{}", "5:15: source main webhooks has no secret"},
		{"no secret but a scheme", "{scheme: stripe}", "5:15: source main webhooks has no secret"},
		{"empty secret", `{secret: ""}`, "5:24: source main webhooks secret is empty"},
		{"blank secret", `{secret: "  "}`, "5:24: source main webhooks secret is empty"},
		{"one of several secrets is empty", `{secrets: [{secret: " "}]}`, "5:35: source main webhooks secrets secret is empty"},
		{"secret with a line break", `{secret: "a\nb"}`, "5:24: source main webhooks secret contains a control character"},
		{"empty list", "{secrets: []}", "5:15: source main webhooks has no secret"},
		{"typo", "{secert: x}", `5:16: unknown key "secert" in source main webhooks; did you mean "secret"?`},
		{"preset typo", "{secret: s, scheme: strip}", `5:35: source main webhooks scheme "strip" is unknown; did you mean "stripe"?`},
		{"both", "{secret: s, secrets: [{secret: t}]}", "has both `secret` and `secrets`; keep one"},
		{"both schemes", "{secret: s, scheme: hex, schemes: [hex]}", "has both `scheme` and `schemes`; keep one"},
		{"learn in a list", "{secret: s, schemes: [learn]}", "5:37: source main webhooks schemes: learn cannot be in a list"},
		{"secret in the wrong form", "{secret: s_hush, scheme: standard}", "5:24: source main webhooks: secret 1 is not whsec_base64; scheme standard cannot use it"},
		{"secret with only a prefix", "{secret: whsec_, scheme: standard}", "secret 1 is empty; scheme standard cannot use it"},
		{"label twice", "{secrets: [{secret: a, label: x}, {secret: b, label: x}]}", `label "x" occurs twice`},
		{"label", "{secrets: [{secret: a, label: 'x y'}]}", `label "x y": want letters`},
		{"not after", "{secrets: [{secret: a, not_after: 2026-11-30}]}", `5:49: source main webhooks secrets not_after "2026-11-30": want a time with its zone`},
		{"secret and public_key in one entry", "{secrets: [{secret: a, public_key: b}]}", "want a secret or a public_key"},
		{"no public key", "{secret: s, scheme: {content: [body], algorithm: ed25519}}", "has no key for scheme custom"},
		{"invalid public key", "{secrets: [{public_key: zz}], scheme: {content: [body], algorithm: ed25519}}", "secret 1 is not pem; scheme custom cannot use it"},

		{"hint without refresh", "{secret: s, unverified: hint}", "5:39: source main webhooks: `unverified: hint` needs the streams that may be read again"},
		{"hint typo", "{secret: s, unverified: hnit}", `did you mean "hint"?`},
		{"refresh without a hint", "{secret: s, refresh: [v2.contacts]}", "5:36: source main webhooks: `refresh` has no effect without `unverified: hint`"},
		{"refresh with unverified: ignore", "{secret: s, unverified: ignore, refresh: [v2.contacts]}", "`refresh` has no effect without `unverified: hint`"},

		{"no content", "{secret: s, scheme: {encoding: hex}}", "5:35: source main webhooks scheme has no content"},
		{"empty content", "{secret: s, scheme: {content: []}}", "scheme content is empty"},
		{"content without the body", "{secret: s, scheme: {content: [method]}}", "5:45: source main webhooks scheme content does not include the body"},
		{"token typo", "{secret: s, scheme: {content: [bdoy]}}", `5:46: source main webhooks scheme content: "bdoy" is unknown; did you mean "body"?`},
		{"token in quotes", `{secret: s, scheme: {content: ["body"]}}`, `"body" in quotes is a literal`},
		{"literal without quotes", "{secret: s, scheme: {content: [body, v0]}}", "put literals in quotes"},
		{"ts without timestamp", "{secret: s, scheme: {content: [ts, body]}}", "content includes ts, but timestamp does not say where"},
		{"url without public_url", "{secret: s, scheme: {content: [url, body]}}", "set public_url"},
		{"digest of a digest", "{secret: s, scheme: {content: [body, {sha256raw: [sha256hex(body)]}]}}", "digest of a digest"},
		{"digest typo", "{secret: s, scheme: {content: [{sha256rwa: [body]}]}}", `did you mean "sha256raw"?`},
		{"unknown key of a scheme", block("alogrithm: x"), `unknown key "alogrithm" in source main webhooks scheme; did you mean "algorithm"?`},
		{"algorithm", block("algorithm: hmac-sha25"), `did you mean "hmac-sha256"?`},
		{"weak", block("algorithm: hmac-sha1"), "algorithm hmac-sha1 is weak"},
		{"style", block("parse: {style: kw}"), `5:73: source main webhooks scheme parse style "kw" is unknown; did you mean "kv"?`},
		{"style missing", block("parse: {prefix: x}"), "scheme parse has no style"},
		{"key of another style", block("parse: {style: bare, prefix: x}"), "5:65: source main webhooks scheme parse style bare has no prefix"},
		{"kv without a signature", block("parse: {style: kv, ts: t}"), "needs the setting sig"},
		{"one key for two values", block("parse: {style: kv, sig: v1, ts: v1}"), `key "v1" is named twice`},
		{"template", block("parse: {style: template, template: '{sig}{ts}'}"), "nothing between them"},
		{"template without a signature", block("parse: {style: template, template: 'x{ts}'}"), "template has no {sig}"},
		{"unsigned time", block("timestamp: {from: 'header:X-Time'}"), "timestamp is not signed, so anyone can change it"},
		{"timestamp from an unknown place", block("timestamp: {from: somewhere}"), `"somewhere" is not a place`},
		{"window", block("timestamp: {from: 'json:/at', past: 100d}"), "window of 2400h0m0s: want 1s to 24h0m0s"},
		{"pointer", block("event_id: {from: 'json:id'}"), "is not a pointer into the body"},
		{"header's name", block("header: 'a b'"), `header "a b" is not a header name`},
		{"address", block("public_url: hooks.example.com"), "is not an address"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(withWebhooks(tt.block)), input())
			require.ErrorContains(t, err, tt.want)
			require.NotContains(t, err.Error(), "hush")
			require.Equal(t, 1, strings.Count(err.Error(), "\n")+1, err)
		})
	}
}

func TestWebhooksThatNoPipelineReads(t *testing.T) {
	unread := strings.Replace(withWebhooks("{secret: s}"), "sources:\n", "sources:\n  spare: {app: {base_url: 'https://spare.example', auth: {token: t}}, webhooks: {secret: s}}\n", 1)
	_, err := Parse([]byte(unread), input())
	require.ErrorContains(t, err, "source spare receives webhooks, but no pipeline reads it")
	parsed(t, strings.Replace(unread, ", webhooks: {secret: s}}\n", "}\n", 1))
}
