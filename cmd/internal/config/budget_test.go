package config

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/wire/budget"
	"github.com/penstock-data/penstock/state"
)

const budgets = `version: 1
sources:
  main:
    v2: {base_url: https://api.example.com, auth: {api_key: one}, rate: 50/s, reserve: 20%, max_wait: 90s}
    app: {base_url: https://app.example.com, auth: {token: two}}
destinations: {w: "duckdb:w.duckdb"}
pipelines: {p: {from: main, to: w, streams: "*"}}
streams:
  mine.one: {path: "https://elsewhere.example/a", key: [id]}
  mine.two: {path: "https://elsewhere.example/b", key: [id]}
`

// All clients with the same credential share one governor. The governor has the limits of the clients' surface. Clients
// without a credential share a governor if they request from the same host.
func TestBudgets(t *testing.T) {
	c, err := Parse([]byte(budgets), input())
	require.NoError(t, err)
	s, _ := c.Source("main")
	require.Equal(t, budget.Rate{Limit: 50, Window: time.Second}, s.V2.Rate)
	require.InDelta(t, 0.2, s.V2.Reserve, 0)
	require.Equal(t, 90*time.Second, s.V2.MaxWait)
	require.Zero(t, s.App.Reserve)

	clients, err := c.Clients("main", c.Streams, nil)
	require.NoError(t, err)
	by := map[string]Client{}
	for _, cl := range clients {
		by[cl.Name] = cl
	}
	require.Equal(t, "one", by["v2"].Account.Reveal())
	require.Equal(t, 90*time.Second, by["v2"].MaxWait)
	require.InDelta(t, 40, by["v2"].Governor.Stats().Allowed, 0)
	require.NotSame(t, by["v2"].Governor, by["app"].Governor)
	require.Same(t, by["mine.one"].Governor, by["mine.two"].Governor)
	require.NotEmpty(t, by["mine.one"].Account)
}

// Sources share a budget only if the server counts their requests together. This is the case if the sources have the
// same key, the same token, or the same user of the same host. Sources with the same OAuth client may still be
// different accounts. One e-mail address may be a user of several hosts.
func TestBudgetsOfSources(t *testing.T) {
	const text = `version: 1
sources:
  a: {app: {base_url: "https://one.example", auth: AUTH}}
  b: {app: {base_url: "https://one.example", auth: AUTH}}
  c: {app: {base_url: "https://two.example", auth: AUTH}}
destinations: {w: "duckdb:w.duckdb"}
pipelines: {p: {from: [a, b, c], to: w, streams: "crm.*"}}
`
	for auth, shared := range map[string][2]bool{ // whether a and b share a budget, and whether a and c do
		"{token: one}": {true, true},
		"{login: {email: a@b.test, password: hush}}": {true, false},
		`{oauth: {client_id: c, authorize_url: "https://auth.example.com/authorize", token_url: "https://auth.example.com/token"}}`: {false, false},
	} {
		c, err := Parse([]byte(strings.ReplaceAll(text, "AUTH", auth)), input())
		require.NoError(t, err)
		account := func(source string) string {
			streams, err := c.Select(c.Pipelines[0], nil)
			require.NoError(t, err)
			clients, err := c.Clients(source, streams, state.NewVault(t.TempDir(), nil))
			require.NoError(t, err)
			require.Len(t, clients, 1)
			return clients[0].Account.Reveal()
		}
		require.Equal(t, shared[0], account("a") == account("b"), auth)
		require.Equal(t, shared[1], account("a") == account("c"), auth)
	}
}

func TestBudgetFaults(t *testing.T) {
	for old, tests := range map[string]map[string]string{
		"reserve: 20%":  {"reserve: 0.2": "want a share from 0% to 90%", "reserve: 91%": "want a share", "reserve: -1%": "want a share", "reserve: x%": "want a share"},
		"max_wait: 90s": {"max_wait: 90": "want a duration from 1s to 24h", "max_wait: 0s": "want a duration", "max_wait: 48h": "want a duration"},
	} {
		for bad, want := range tests {
			_, err := Parse([]byte(strings.Replace(budgets, old, bad, 1)), input())
			require.ErrorContains(t, err, want, bad)
			require.ErrorContains(t, err, ":4:", bad)
		}
	}
}
