package signal

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/serve"
)

const (
	grantFails = 5 * time.Minute // an alert is raised after renewals have failed for this long
	grantEnds  = 24 * time.Hour  // an alert is raised this long before the end of a sign-in that has no refresh token
)

// grants raises and clears the alerts about sign-ins. It also clears the alerts about removed sign-ins. If a sign-in
// could not be read, its alert stays.
func (a *Alerts) grants(n serve.GrantsSeen) {
	stays := func(tp topic, surface string) bool {
		return slices.ContainsFunc(n.Unread, func(source string) bool { return ofSource(source, Grant) == tp }) ||
			slices.ContainsFunc(n.Grants, func(g serve.Grant) bool { return ofSource(g.Source, Grant) == tp && g.Surface == surface })
	}
	for tp, surfaces := range a.active {
		if tp.Kind != Grant {
			continue
		}
		for surface := range surfaces {
			if !stays(tp, surface) {
				a.clear(tp, surface)
			}
		}
	}
	for _, g := range n.Grants {
		tp := ofSource(g.Source, Grant)
		if why := grantTrouble(g, n.At); why != "" {
			a.raise(tp, g.Surface, why)
		} else {
			a.clear(tp, g.Surface)
		}
	}
}

func grantTrouble(g serve.Grant, now time.Time) string {
	login := fmt.Sprintf("; run `penstock login %s %s` to sign in", g.Source, g.Surface)
	switch {
	case g.Trouble != "":
		return clip(g.Trouble, mostWhy-len(login)) + login
	case g.NoRefresh && !g.Expires.IsZero() && g.Expires.Sub(now) < grantEnds:
		return "the sign-in ends at " + g.Expires.UTC().Format(time.RFC3339) + " and cannot be renewed" + login
	case !g.Failing.IsZero() && now.Sub(g.Failing) >= grantFails:
		return "the token has not been renewed since " + g.Failing.UTC().Format(time.RFC3339) + ": the token endpoint returns no token; penstock keeps trying"
	}
	return ""
}

func (m *Metrics) makeGrants() {
	m.grantUsable = m.gauge("grant_usable", "1 if the sign-in of the source can be used; 0 if a person must sign in again.", "source", "surface")
	m.grantExpires = m.gauge("grant_expires_timestamp_seconds", "When the access token expires; 0 if the server did not say.", "source", "surface")
	m.grantRenewed = m.gauge("grant_renewed_timestamp_seconds", "When the access token was issued; 0 until a person has signed in.", "source", "surface")
	m.grantFailing = m.gauge("grant_failing_since_timestamp_seconds", "When renewals of the access token began to fail; 0 if they succeed.", "source", "surface")
}

func (m *Metrics) grantsSeen(n serve.GrantsSeen) {
	m.grantUsable.Reset()
	m.grantExpires.Reset()
	m.grantRenewed.Reset()
	m.grantFailing.Reset()
	for _, g := range n.Grants {
		source, usable := m.source(g.Source), 1.0
		if g.Trouble != "" {
			usable = 0
		}
		m.grantUsable.WithLabelValues(source, g.Surface).Set(usable)
		m.grantExpires.WithLabelValues(source, g.Surface).Set(unixOrZero(g.Expires))
		m.grantRenewed.WithLabelValues(source, g.Surface).Set(unixOrZero(g.Renewed))
		m.grantFailing.WithLabelValues(source, g.Surface).Set(unixOrZero(g.Failing))
	}
}

func unixOrZero(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return unix(t)
}
