package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/extract/wire/budget"
	"github.com/penstock-data/penstock/schemas"
)

const both = `version: 1
sources:
  main:
    v2: {base_url: "https://api.example.com", auth: {api_key: k}}
    app: {base_url: "https://app.example.com", auth: {token: t}}
destinations: {warehouse: "duckdb:w.duckdb"}
pipelines:
  all: {from: main, to: warehouse}
`

func parsed(t *testing.T, yaml string) *Config {
	t.Helper()
	c, err := Parse([]byte(yaml), input())
	require.NoError(t, err)
	return c
}

func TestSelect(t *testing.T) {
	everything := []string{"v2.contacts", "crm.leads", "crm.lead_detail", "hr.employees", "hr.payslips"}
	for _, tt := range []struct {
		name, streams string
		only          []string
		want          []string
	}{
		{"no streams given", "", nil, everything},
		{"all", `"*"`, nil, everything},
		{"a module", `"crm.*"`, nil, []string{"crm.leads", "crm.lead_detail"}},
		{"a wildcard inside a name", `"*.lead*"`, nil, []string{"crm.leads", "crm.lead_detail"}},
		{"only an exclusion", `["!hr.*"]`, nil, everything[:3]},
		{"the last decides", `["*", "!hr.*", hr.employees]`, nil, everything[:4]},
		{"excluded after it was selected", `["*", hr.payslips, "!hr.*"]`, nil, everything[:3]},
		{"a child without its parent", "crm.lead_detail", nil, []string{"crm.lead_detail"}},
		{"narrowed by a selection", `"*"`, []string{"crm.*", "!crm.lead_detail"}, []string{"crm.leads"}},
		{"narrowed by an exclusion", `"crm.*"`, []string{"!crm.lead_detail"}, []string{"crm.leads"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			yaml := both
			if tt.streams != "" {
				yaml = strings.Replace(both, "to: warehouse", "to: warehouse, streams: "+tt.streams, 1)
			}
			c := parsed(t, yaml)
			got, err := c.Select(c.Pipelines[0], tt.only)
			require.NoError(t, err)
			require.Equal(t, tt.want, names(got))
		})
	}
}

func TestSelectRefuses(t *testing.T) {
	c := parsed(t, strings.Replace(both, "to: warehouse", "to: warehouse, streams: 'crm.*'", 1))
	for only, want := range map[string]string{
		"crm.leeds":       `no stream "crm.leeds"; did you mean "crm.leads"?`,
		"crm.lead_create": "crm.lead_create is a write endpoint and can never be read",
		"hr.employees":    "pipeline all has no stream hr.employees",
		"crm.[ab]":        `"crm.[ab]": only * is a wildcard`,
	} {
		_, err := c.Select(c.Pipelines[0], []string{only})
		require.EqualError(t, err, want)
	}
}

func TestSelectUnmetNeeds(t *testing.T) {
	named := strings.Replace(both, "to: warehouse", "to: warehouse, streams: ['*', wl.partners]", 1)
	_, err := Parse([]byte(named), input())
	require.ErrorContains(t, err, "stream wl.partners needs a white-label token")
	c := parsed(t, named+"streams: {wl.partners: {auth: {token: wl_hush}}}\n")
	got, err := c.Select(c.Pipelines[0], nil)
	require.NoError(t, err)
	require.Contains(t, names(got), "wl.partners")
}

func TestStreamOverrides(t *testing.T) {
	c := parsed(t, both+`streams:
  crm.lead_detail:
    params: {lead_id: {from: /uuid}, with: notes}
    columns: {amount: "decimal(16,4)"}
    pagination: none
  crm.leads: {records: ["", /data], key: [], method: POST, body: {status: open, limit: 5}}
  my.pages: {path: "/api/pages/{page_id}", parent: crm.leads, params: [{name: page_id, from: "/pages/*/id"}], auth: none}
  my.posts: {path: "https://blog.example/posts?lang=de", key: id, surface: v2}
  my.own: {path: "https://app.example.com/api/extra"}
`)
	get := func(name string) Stream {
		s, ok := c.Stream(name)
		require.True(t, ok)
		return s
	}
	detail := get("crm.lead_detail")
	require.Equal(t, "body", detail.Params[0].In, "the file does not say where it is sent, so the catalogue decides")
	require.Equal(t, "/uuid", detail.Params[0].From)
	require.Equal(t, "notes", detail.Params[1].Value)
	require.Equal(t, "body", detail.Params[1].In, "parameters of a POST are sent in the body")
	require.Equal(t, "decimal(16,4)", detail.Types["amount"])
	require.Equal(t, "none", detail.Pagination.Type)
	require.Equal(t, "crm.leads", detail.Parent)

	leads := get("crm.leads")
	require.Equal(t, []string{"", "/data"}, leads.Records)
	require.Empty(t, leads.Key)
	require.Equal(t, "POST", leads.Method)
	require.Len(t, leads.Params, 2)
	require.Equal(t, "5", leads.Params[1].Value)

	require.Equal(t, "path", get("my.pages").Params[0].In)
	posts := get("my.posts")
	require.Equal(t, "https://blog.example", posts.Origin)
	require.Equal(t, "/posts", posts.Path)
	require.Equal(t, "de", posts.Params[0].Value)
	require.True(t, posts.Enabled)
	require.Equal(t, schemas.AuthBearer, get("my.own").Auth, "at the origin of a surface, a stream uses the surface's credential")
	require.Equal(t, schemas.AuthNone, get("my.pages").Auth)
}

func TestClientsConfineCredentials(t *testing.T) {
	c := parsed(t, both+`streams:
  my.posts: {path: "https://blog.example/posts"}
  my.feed: {path: "https://feed.example/items", auth: {token: feed_hush}}
  my.extra: {path: "https://app.example.com/api/extra"}
  wl.partners: {auth: {token: wl_hush}}
`)
	streams, err := c.Select(Pipeline{From: []Ref{{Text: "main"}}, Streams: []Ref{{Text: "my.*"}, {Text: "wl.partners"}, {Text: "crm.lead_detail"}}}, nil)
	require.NoError(t, err)
	clients, err := c.Clients("main", streams, nil)
	require.NoError(t, err)
	type shape struct{ base, routes, secret string }
	got := map[string]shape{}
	for _, cl := range clients {
		s := shape{base: cl.BaseURL}
		for _, r := range cl.Allow {
			s.routes += r.Method + " " + r.Path + ";"
		}
		if cl.Credential != nil {
			for _, secret := range cl.Credential.Secrets() {
				s.secret += secret.Reveal()
			}
		}
		got[cl.Name] = s
	}
	require.Equal(t, map[string]shape{
		"app":         {"https://app.example.com", "POST /api/lead/lead-details;GET /api/leads;", "t"},
		"my.posts":    {"https://blog.example", "GET /posts;", ""},
		"my.feed":     {"https://feed.example", "GET /items;", "feed_hush"},
		"my.extra":    {"https://app.example.com", "GET /api/extra;", "t"},
		"wl.partners": {"https://app.example.com", "GET /api/wl/partners;", "wl_hush"},
	}, got)
}

func TestClientsOfOneCredentialShareAGovernor(t *testing.T) {
	for token, shared := range map[string]bool{"k": true, "t": false} {
		c := parsed(t, strings.Replace(both, "token: t", "token: "+token, 1))
		streams, err := c.Select(c.Pipelines[0], nil)
		require.NoError(t, err)
		clients, err := c.Clients("main", streams, nil)
		require.NoError(t, err)
		require.Len(t, clients, 2)
		require.Equal(t, shared, clients[0].Governor == clients[1].Governor)
	}
}

func TestClientsOfOwnStreamsShareTheSurfacesGovernor(t *testing.T) {
	c := parsed(t, both+`streams:
  my.extra: {path: "https://app.example.com/api/extra"}
  my.posts: {path: "https://blog.example/posts"}
  my.pages: {path: "https://blog.example/pages"}
`)
	streams, err := c.Select(Pipeline{From: []Ref{{Text: "main"}}, Streams: []Ref{{Text: "crm.leads"}, {Text: "my.*"}}}, nil)
	require.NoError(t, err)
	clients, err := c.Clients("main", streams, nil)
	require.NoError(t, err)
	by := map[string]*budget.Governor{}
	for _, cl := range clients {
		by[cl.Name] = cl.Governor
	}
	require.Same(t, by["app"], by["my.extra"], "the server counts the requests of both together")
	require.NotSame(t, by["my.posts"], by["app"])
	require.Same(t, by["my.posts"], by["my.pages"], "streams without a credential share a governor per host")
}

func TestStateInADatabase(t *testing.T) {
	c := parsed(t, both+"state: postgres://u:hush@db/x\n")
	require.Contains(t, c.Secrets, wire.Secret("hush"))
	require.Empty(t, c.State.Dir)
	c = parsed(t, both+"state: {path: 'postgres://u:hush@db/x', key: AGE-SECRET-KEY-1}\n")
	require.Contains(t, c.Secrets, wire.Secret("AGE-SECRET-KEY-1"))
	require.Equal(t, wire.Secret("AGE-SECRET-KEY-1"), c.State.Key)
}

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"schedule", "shcedule", 1}, {"kitten", "sitting", 3}, {"Leads", "leads", 0}, {"ä", "a", 1}} {
		require.Equal(t, tt.want, distance(tt.a, tt.b), "%s %s", tt.a, tt.b)
		require.Equal(t, tt.want, distance(tt.b, tt.a), "%s %s", tt.b, tt.a)
	}
}
