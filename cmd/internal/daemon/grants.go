package daemon

import (
	"context"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/extract/wire"
)

// grantsEvery is how often the daemon checks sign-ins.
const grantsEvery = time.Minute

// watchGrants reports the configured sign-ins to metrics and alerts, every grantsEvery, until ctx ends.
func (s *Signals) watchGrants(ctx context.Context) {
	tick := time.NewTicker(grantsEvery)
	defer tick.Stop()
	for {
		looked := make(chan serve.GrantsSeen, 1)
		go func() { looked <- s.grants(ctx) }()
		select {
		case seen := <-looked:
			s.metrics.Observe(seen)
			s.alerts.Observe(seen)
		case <-ctx.Done(): // do not wait for s.grants, because a state database that does not respond must not delay the exit. Invariant 15
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// grants returns the configured sign-ins. If some sign-ins of a source cannot be read within grantsEvery, the field
// Unread lists the source.
func (s *Signals) grants(ctx context.Context) serve.GrantsSeen {
	ctx, cancel := context.WithTimeout(ctx, grantsEvery)
	defer cancel()
	seen, err := s.grantsOf(ctx, s.conf.Load())
	if err != nil {
		s.log.Warn("read sign-ins", "error", err)
	}
	return seen
}

// grantsOf returns the sign-ins of a configuration. If a sign-in cannot be read, the field Unread lists its source, and
// the others are still read. The returned error is the last error that occurred.
func grantsOf(ctx context.Context, o *open.Opener, c *config.Config) (seen serve.GrantsSeen, failed error) {
	seen.At = o.State(c).Now()
	for _, src := range c.Sources {
		if src.Faults != nil || ctx.Err() != nil {
			seen.Unread = append(seen.Unread, src.Name)
			continue
		}
		all, err := o.SignIns(c, src.Name)
		if err == nil {
			var read []serve.Grant
			read, err = readGrants(all)
			seen.Grants = append(seen.Grants, read...)
		}
		if err != nil {
			failed, seen.Unread = err, append(seen.Unread, src.Name)
		}
	}
	return seen, failed
}

// readGrants returns the sign-ins that can be read. If some cannot be read, the returned error is the last of their
// errors.
func readGrants(all []config.SignIn) (read []serve.Grant, failed error) {
	for _, in := range all {
		st, err := in.Credential.(wire.Keeper).State()
		if err != nil {
			failed = err
			continue
		}
		read = append(read, serve.Grant{
			Source: in.Name, Surface: string(in.Surface), Renewed: st.Renewed, Expires: st.Expires,
			Failing: st.Failing, NoRefresh: st.NoRefresh, Trouble: st.Trouble,
		})
	}
	return read, failed
}
