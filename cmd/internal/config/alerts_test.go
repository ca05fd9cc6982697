package config

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/wire"
)

const alertsText = `version: 1
sources:
  main:
    v2: {base_url: "https://api.example.com", auth: {api_key: t}}
    app: {base_url: "https://app.example.com", auth: {token: t}}
destinations: {warehouse: "duckdb:w.duckdb"}
pipelines:
  nightly: {from: main, to: warehouse, streams: [v2.contacts], alerts: {on: [failed, late]}}
  hourly: {from: main, to: warehouse, streams: [hr.employees], alerts: {on: []}}
  weekly: {from: main, to: warehouse, streams: [hr.payslips], alerts: {to: "ntfy://ntfy.sh/weekly"}}
  plain: {from: main, to: warehouse, streams: [crm.leads]}
alerts: {to: ["slack://${PENSTOCK_API_KEY}@webhook"], digest: 5m}
`

func TestAlerts(t *testing.T) {
	c, err := Parse([]byte(alertsText), input())
	require.NoError(t, err)
	all := AlertKinds()
	require.Equal(t, []wire.Secret{"slack://sk_hush@webhook"}, c.Alerts.To)
	require.Equal(t, all, c.Alerts.On)
	require.Equal(t, 5*time.Minute, c.Alerts.Digest)
	require.Contains(t, c.Secrets, wire.Secret("slack://sk_hush@webhook"))

	of := func(name string) *Alerts {
		p, ok := c.Pipeline(name)
		require.True(t, ok)
		return p.Alerts
	}
	require.Equal(t, []string{"failed", "late"}, of("nightly").On)
	require.Equal(t, c.Alerts.To, of("nightly").To)
	require.Empty(t, of("hourly").On)
	require.Equal(t, []wire.Secret{"ntfy://ntfy.sh/weekly"}, of("weekly").To)
	require.Equal(t, all, of("weekly").On)
	require.Nil(t, of("plain"))
}

func TestAlertFaults(t *testing.T) {
	for block, want := range map[string]string{
		"alerts: {to: [], on: [broken]}":                    `8:23: alerts on "broken" is unknown`,
		"alerts: {to: 'x://y', digest: never}":              `alerts digest "never": want a duration`,
		"alerts: {to: 'x://y', digest: 25h}":                "want a duration of up to a day",
		"alerts: {to: '${NONE}'}":                           "environment variable NONE is not set",
		"alerts: {tell: me}":                                `unknown key "tell" in alerts`,
		"serve: {otlp: 'ftp://x'}":                          "serve otlp is not a URL",
		"serve: {otlp: 'http://me:hush@x'}":                 "serve otlp contains a user, a password or a query",
		"serve: {openlineage: {token: t}}":                  "serve openlineage has no url",
		"serve: {openlineage: {url: 'http://x', token: t}}": "would send its token in clear text",
	} {
		_, err := Parse([]byte(minimal+block+"\n"), input())
		require.ErrorContains(t, err, want, block)
		require.NotContains(t, err.Error(), "hush")
	}
	_, err := Parse([]byte(strings.Replace(minimal, "to: warehouse}", "to: warehouse, alerts: {on: failed}}", 1)), input())
	require.ErrorContains(t, err, "pipeline nightly alerts has no recipients")
}

func TestCollectors(t *testing.T) {
	c, err := Parse([]byte(minimal+"serve: {otlp: 'http://collector:4318/', openlineage: {url: 'https://lineage.example/api', token: '${PENSTOCK_API_KEY}'}}\n"), input())
	require.NoError(t, err)
	require.Equal(t, "http://collector:4318", c.Serve.OTLP.URL)
	require.Equal(t, "https://lineage.example/api", c.Serve.OpenLineage.URL)
	require.Equal(t, "sk_hush", c.Serve.OpenLineage.Token.Reveal())
}
