package main

import (
	"context"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/extract/wire"
)

// grantsEvery is how often the daemon looks at how sign-ins stand.
const grantsEvery = time.Minute

// watchGrants tells observers how the sign-ins of the configuration stand, until ctx ends.
func (s *signals) watchGrants(ctx context.Context) {
	tick := time.NewTicker(grantsEvery)
	defer tick.Stop()
	for {
		looked := make(chan serve.GrantsSeen, 1)
		go func() { looked <- s.grants(ctx) }()
		select {
		case seen := <-looked:
			s.metrics.Observe(seen)
			s.alerts.Observe(seen)
		case <-ctx.Done(): // a state that does not answer does not hold up the end. Invariant 15
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// grants are the sign-ins of the configuration, as far as they can be read until the next look.
func (s *signals) grants(ctx context.Context) serve.GrantsSeen {
	ctx, cancel := context.WithTimeout(ctx, grantsEvery)
	defer cancel()
	seen, err := s.grantsOf(ctx, s.conf.Load())
	if err != nil {
		s.log.Warn("read how sign-ins stand", "error", err)
	}
	return seen
}

// grantsOf are the sign-ins of a configuration. One that cannot be read is not in the way of
// the others: its source is in Unread.
func (a *app) grantsOf(ctx context.Context, c *config.Config) (seen serve.GrantsSeen, failed error) {
	seen.At = a.stateOf(c).Now()
	for _, src := range c.Sources {
		if src.Faults != nil || ctx.Err() != nil {
			seen.Unread = append(seen.Unread, src.Name)
			continue
		}
		all, err := a.signIns(c, src.Name)
		if err != nil {
			failed, seen.Unread = err, append(seen.Unread, src.Name)
			continue
		}
		for _, in := range all {
			st, err := in.Credential.(wire.Keeper).Standing()
			if err != nil {
				failed, seen.Unread = err, append(seen.Unread, src.Name)
				continue
			}
			seen.Grants = append(seen.Grants, serve.Grant{
				Source: in.Name, Surface: string(in.Surface), Renewed: st.Renewed, Expires: st.Expires,
				Failing: st.Failing, NoRefresh: st.NoRefresh, Trouble: st.Trouble,
			})
		}
	}
	return seen, failed
}
