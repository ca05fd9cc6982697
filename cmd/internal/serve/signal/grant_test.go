package signal

import (
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/serve"
)

func TestAlertsGrant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, filepath.Join(t.TempDir(), "alerts.json"), nightlyRouting)
		defer d.stop()
		see := func(change func(*serve.Grant)) {
			g := serve.Grant{Source: "main", Surface: "v2", Renewed: time.Now(), Expires: time.Now().Add(time.Hour)}
			change(&g)
			d.Observe(serve.GrantsSeen{At: time.Now(), Grants: []serve.Grant{g}})
		}
		healthy := func(*serve.Grant) {}
		see(healthy)
		require.Empty(t, d.after(time.Hour))

		lost := func(g *serve.Grant) {
			g.Trouble = "the answer to the renewal at " + time.Now().Format(time.RFC3339) + " was lost"
		}
		see(lost)
		require.Regexp(t, `^slack: source main: grant\n  v2: the answer to the renewal at .* was lost; run 'penstock login main v2' to sign in$`, d.after(time.Hour)[0])
		see(lost)
		require.Empty(t, d.after(time.Hour), "the lost answer is reported once")
		see(healthy)
		require.Equal(t, []string{"slack: source main: grant (resolved)"}, d.after(time.Hour))

		see(func(g *serve.Grant) { g.Failing = time.Now().Add(-time.Minute) })
		require.Empty(t, d.after(time.Hour), "one minute is too short for an alert")
		see(func(g *serve.Grant) { g.Failing = time.Now().Add(-10 * time.Minute) })
		require.Regexp(t, `the token has not been renewed since .*; penstock keeps trying`, d.after(time.Hour)[0])
		see(healthy)
		require.Len(t, d.after(time.Hour), 1)

		see(func(g *serve.Grant) { g.NoRefresh = true; g.Expires = time.Now().Add(48 * time.Hour) })
		require.Empty(t, d.after(time.Hour), "a sign-in that ends only the day after tomorrow raises no alert")
		see(func(g *serve.Grant) { g.NoRefresh = true })
		require.Regexp(t, `the sign-in ends at .* and cannot be renewed`, d.after(time.Hour)[0])
		d.Observe(serve.GrantsSeen{At: time.Now(), Unread: []string{"main"}})
		require.Empty(t, d.after(time.Hour), "the state cannot be read: no alert ends")
		app := serve.Grant{Source: "main", Surface: "app", Renewed: time.Now(), Expires: time.Now().Add(time.Hour)}
		d.Observe(serve.GrantsSeen{At: time.Now(), Grants: []serve.Grant{app}}) // v2 was removed from the configuration
		require.Equal(t, []string{"slack: source main: grant (resolved)"}, d.after(time.Hour))

		see(func(g *serve.Grant) { g.NoRefresh = true })
		require.Len(t, d.after(time.Hour), 1)
		d.Observe(serve.GrantsSeen{At: time.Now()}) // the source was removed, too
		require.Equal(t, []string{"slack: source main: grant (resolved)"}, d.after(time.Hour))
	})
}

func TestMetricsGrant(t *testing.T) {
	m := newTestMetrics(nil)
	at := time.Unix(1_700_000_000, 0)
	m.Observe(serve.GrantsSeen{Grants: []serve.Grant{
		{Source: "main", Surface: "v2", Renewed: at, Expires: at.Add(time.Hour)},
		{Source: "main", Surface: "app", Renewed: at, Failing: at.Add(time.Minute), Trouble: "no sign-in yet"},
	}})
	text := scrape(t, m)
	for _, want := range []string{
		`penstock_grant_usable{source="main",surface="v2"} 1`,
		`penstock_grant_usable{source="main",surface="app"} 0`,
		`penstock_grant_expires_timestamp_seconds{source="main",surface="v2"} 1.7000036e+09`,
		`penstock_grant_expires_timestamp_seconds{source="main",surface="app"} 0`,
		`penstock_grant_renewed_timestamp_seconds{source="main",surface="v2"} 1.7e+09`,
		`penstock_grant_failing_since_timestamp_seconds{source="main",surface="app"} 1.70000006e+09`,
		`penstock_grant_failing_since_timestamp_seconds{source="main",surface="v2"} 0`,
	} {
		require.Contains(t, text, want)
	}
	m.Observe(serve.GrantsSeen{})
	require.NotContains(t, scrape(t, m), "penstock_grant_usable{", "removed sign-ins are dropped")
}
