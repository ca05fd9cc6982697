package config

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const serveHead = `version: 1
sources: {main: {app: {base_url: "https://api.example.com", auth: {token: x}}}}
destinations: {lake: "parquet:lake"}
pipelines: {all: {from: main, to: lake}}
serve: `

func TestServe(t *testing.T) {
	const long, other = "owner-token-0123456789", "other-token-0123456789"
	for text, want := range map[string]string{
		"{auth: {token: " + long + "}}":                                                           "",
		"{auth: {tokens: [{name: ann, token: " + long + ", role: read}]}}":                        "",
		"{auth: {token: " + long + ", tokens: [{name: p, token: " + other + ", role: metrics}]}}": "",
		"{listen: 0.0.0.0:80, auth: {tokens: [{name: ann, token: " + long + ", role: operate}]}}": "",
		"{listen: \"unix:/run/p.sock\"}":                                                          "",
		"{tls: {cert: c.pem, key: k.pem}}":                                                        "",
		"{auth: {token: only-15-bytes__}}":                                                        "pipelines.yaml:5:23: serve auth token has 15 bytes; want 16 or more, such as `openssl rand -hex 16` prints",
		"{auth: {tokens: [{name: ann, token: short}]}}":                                           "serve auth tokens token has 5 bytes",
		"{auth: {tokens: [{name: ann, token: " + long + ", role: admin}]}}":                       `role "admin" is unknown`,
		"{auth: {tokens: [{token: " + long + "}]}}":                                               "serve auth tokens has no name",
		"{auth: {tokens: [{name: p, token: " + long + ", role: metrics}]}}":                       "no token opens the dashboard",
		"{auth: {token: " + long + ", tokens: [{name: ann, token: " + long + "}]}}":               "the same name or the same token",
		"{auth: {token: " + long + ", tokens: [{name: owner, token: " + other + "}]}}":            "the same name or the same token",
		"{auth: {}}":           "serve auth has no token",
		"{listen: 0.0.0.0:80}": "open to other machines",
		"{listen: \"unix:\"}":  "want unix:PATH",
		"{listen: \"unix:/run/p.sock\", tls: {cert: c.pem, key: k.pem}}": "a unix socket has no TLS",
		"{tls: {cert: c.pem}}": "serve tls has no key",
	} {
		c, err := Parse([]byte(serveHead+text+"\n"), input())
		if want == "" {
			require.NoError(t, err, text)
			require.NotNil(t, c)
			continue
		}
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), long)
	}
}

// PENSTOCK_STATE_KEY sets the key that encrypts the state, even if the file does not contain `state:`.
func TestStateKeyOfEnvironment(t *testing.T) {
	in := input()
	in.Env = func(name string) (string, bool) { return "AGE-SECRET-KEY-1", name == StateKeyName }
	for _, text := range []string{"", "state: .state\n", "state: {path: .state}\n"} {
		c, err := Parse([]byte(strings.TrimSuffix(serveHead, "serve: ")+text), in)
		require.NoError(t, err)
		require.Equal(t, "AGE-SECRET-KEY-1", c.State.Key.Reveal(), text)
		require.Contains(t, c.Secrets, c.State.Key)
	}
}

// With DestinationsOnly, the credentials of sources, webhooks, masks and the dashboard may be missing. Those of
// destinations and of the state may not.
func TestSecretsMayBeMissing(t *testing.T) {
	const text = `version: 1
sources:
  main:
    v2: {base_url: "${V2_URL}", auth: {api_key: "${V2_KEY}"}, plan: "${PLAN}", headers: {X-Key: "${V2_HEADER}"}}
    app: {base_url: "${APP_URL}", auth: {login: {email: "${MAIL}", password: "${file:/nowhere/password}"}}}
    webhooks: {secret: "${HOOK}", scheme: standard}
destinations: {lake: "parquet:lake"}
pipelines: {all: {from: main, to: lake, mask: {"*.email": hmac}, mask_key: "${MASK}"}}
serve: {listen: "0.0.0.0:8080", auth: {token: "${DASHBOARD}"}}
`
	in := input()
	in.Env = func(string) (string, bool) { return "", false }
	in.Read = func(string) (string, error) { return "", errors.New("no such file") }
	_, err := Parse([]byte(text), in)
	for _, name := range []string{"V2_URL", "V2_KEY", "PLAN", "V2_HEADER", "APP_URL", "MAIL", "/nowhere/password", "HOOK", "MASK", "DASHBOARD"} {
		require.ErrorContains(t, err, name)
	}
	in.DestinationsOnly = true
	c, err := Parse([]byte(text), in)
	require.NoError(t, err)
	require.Equal(t, "main", c.Sources[0].Name)
	require.NotNil(t, c.Sources[0].App)

	_, err = Parse([]byte(strings.Replace(text, "parquet:lake", "${LAKE}", 1)), in)
	require.ErrorContains(t, err, "environment variable LAKE is not set")

	// A list of sources whose address is missing is not read.
	const listed = `version: 1
sources:
  from: {query: "SELECT name FROM workspaces", of: "${LIST_URL}"}
  template: {app: {base_url: "https://{name}.example.com", auth: {token: "${KEY_{name}}"}}}
destinations: {lake: "parquet:lake"}
pipelines: {all: {from: "*", to: lake}}
`
	in.Rows = func(Listing) ([]Row, error) { return nil, errors.New("must not be read") }
	c, err = Parse([]byte(listed), in)
	require.NoError(t, err)
	require.True(t, c.Listing.Unread)
}

// With DestinationsOnly, only the commands of destinations and of the state are run. The form of other secrets is not
// checked.
func TestSecretsLeftUnread(t *testing.T) {
	const text = `version: 1
sources:
  main:
    app: {base_url: "https://api.example.com", auth: {token: "${cmd:op app}"}}
    webhooks: {secret: "${cmd:op webhook}", scheme: standard}
  other:
    app: {base_url: "https://api.example.com", auth: {token: x}}
    webhooks: {secrets: [{secret: "${cmd:op webhook}", label: new}, {secret: "${cmd:op other}", label: old}], scheme: {content: [body], key_encoding: hex}}
destinations: {lake: "parquet:lake"}
pipelines: {all: {from: "*", to: lake, mask: {"*.email": hmac}, mask_key: "${cmd:op mask}"}}
serve: {auth: {token: "${cmd:op owner}", tokens: [{name: ann, token: "${cmd:op ann}"}, {name: p, token: "${cmd:op p}"}]}}
`
	in, printed := input(), map[string]string{
		"app": "of app", "webhook": "0123456789abcdef0123456789abcdef", "other": "89abcdef", "mask": " a key of masks ", "owner": "owner-0123456789", "ann": "ann-0123456789abc", "p": "p-0123456789abcdef",
	}
	ran := map[string]bool{}
	in.Run = func(argv []string) (string, error) { ran[argv[1]] = true; return printed[argv[1]], nil }
	in.DestinationsOnly = true
	_, err := Parse([]byte(text), in)
	require.NoError(t, err)
	require.Empty(t, ran)

	in.DestinationsOnly = false
	c, err := Parse([]byte(text), in)
	require.NoError(t, err)
	require.Len(t, ran, len(printed))
	require.Equal(t, printed["mask"], c.Pipelines[0].MaskKey.Reveal(), "spaces around the key are part of it")
	require.Contains(t, c.Secrets, c.Pipelines[0].MaskKey)

	printed["mask"], printed["other"], printed["webhook"] = "too short", "no digits", "%"
	_, err = Parse([]byte(text), in)
	for _, want := range []string{"mask_key is shorter than 16 characters", "webhooks: secret 1 is not", "webhooks: secret old is not hex"} {
		require.ErrorContains(t, err, want, "without DestinationsOnly, the form is checked")
	}
}
