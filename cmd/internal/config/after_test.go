package config

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/wire"
)

func TestAfter(t *testing.T) {
	t.Parallel()
	with := func(after string) string {
		return strings.Replace(alertsText, "streams: [crm.leads]}", "streams: [crm.leads], after: "+after+"}", 1)
	}
	c, err := Parse([]byte(with(`[{run: [dbt, build], timeout: 30m, env: {TARGET: prod, WORD: "${PENSTOCK_API_KEY}", DBT_PASSWORD: plain_text}}, {run: ["true"]}]`)), input())
	require.NoError(t, err)
	p, _ := c.Pipeline("plain")
	require.Len(t, p.After, 2)
	require.Equal(t, []string{"dbt", "build"}, p.After[0].Words)
	require.Equal(t, 30*time.Minute, p.After[0].Timeout)
	require.Equal(t, time.Hour, p.After[1].Timeout)
	require.Equal(t, map[string]wire.Secret{"TARGET": "prod", "WORD": "sk_hush", "DBT_PASSWORD": "plain_text"}, p.After[0].Env)
	require.Contains(t, c.Secrets, wire.Secret("sk_hush"))
	require.Contains(t, c.Secrets, wire.Secret("plain_text"), "the name of the variable says that it is a secret")
	require.NotContains(t, c.Secrets, wire.Secret("prod"))

	for after, want := range map[string]string{
		`[{run: dbt build}]`:                           "want a list of words, such as [dbt, build]",
		`[{run: [dbt, "${PENSTOCK_API_KEY}"]}]`:        "other users can see the arguments of a program; set a variable under `env` instead",
		`[{run: []}]`:                                  "is empty",
		`[{env: {A: b}}]`:                              "has no run",
		`[{run: [dbt], env: {"A-B": c}}]`:              `"A-B" is not a valid name of a variable`,
		`[{run: [dbt], timeout: 2d}]`:                  "want a duration from 1s to 24h",
		`{run: [dbt]}`:                                 "is a mapping; want a list",
		`[{run: [dbt], shell: true}]`:                  `unknown key "shell"`,
		`[` + strings.Repeat(`{run: [x]}, `, 21) + `]`: "more than 20 commands",
	} {
		_, err := Parse([]byte(with(after)), input())
		require.ErrorContains(t, err, want, after)
		require.NotContains(t, err.Error(), "sk_hush")
	}
}
