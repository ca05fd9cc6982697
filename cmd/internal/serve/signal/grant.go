package signal

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/serve"
)

// When a sign-in is news.
const (
	grantFails = 5 * time.Minute // renewals have failed for so long
	grantEnds  = 24 * time.Hour  // before the end of one that nothing renews
)

// grants goes by how sign-ins stand now. What is known of those that are gone is cleared;
// what is known of those that could not be read stays.
func (a *Alerts) grants(n serve.GrantsSeen) {
	stays := func(tp topic, surface string) bool {
		return slices.ContainsFunc(n.Unread, func(source string) bool { return ofSource(source, Grant) == tp }) ||
			slices.ContainsFunc(n.Grants, func(g serve.Grant) bool { return ofSource(g.Source, Grant) == tp && g.Surface == surface })
	}
	for tp, surfaces := range a.matter {
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

// grantTrouble is why a sign-in needs a person; "" if it does not.
func grantTrouble(g serve.Grant, now time.Time) string {
	login := fmt.Sprintf("; `penstock login %s %s` signs in", g.Source, g.Surface)
	switch {
	case g.Trouble != "":
		return clip(g.Trouble, mostWhy-len(login)) + login
	case g.NoRefresh && !g.Expires.IsZero() && g.Expires.Sub(now) < grantEnds:
		return "the sign-in ends at " + g.Expires.UTC().Format(time.RFC3339) + " and nothing renews it" + login
	case !g.Failing.IsZero() && now.Sub(g.Failing) >= grantFails:
		return "the token has not been renewed since " + g.Failing.UTC().Format(time.RFC3339) + ": the token endpoint gives none; penstock keeps trying"
	}
	return ""
}

// makeGrants makes the metrics of sign-ins.
func (m *Metrics) makeGrants() {
	m.grantUsable = m.gauge("grant_usable", "Whether the sign-in of a source can be used: 0 until somebody acts.", "source", "surface")
	m.grantExpires = m.gauge("grant_expires_timestamp_seconds", "When the access token ends; 0 where the server has not said.", "source", "surface")
	m.grantRenewed = m.gauge("grant_renewed_timestamp_seconds", "When the access token came; 0 where nobody has signed in.", "source", "surface")
	m.grantFailing = m.gauge("grant_failing_since_timestamp_seconds", "Since when renewals have brought no token; 0 while they do.", "source", "surface")
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
