package daemon

import (
	"fmt"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/config"
)

// ReadOnHint returns the streams of a pipeline that are read again after a delivery whose signature cannot be verified.
// The result maps each source to these streams. They are the streams under `refresh` in the source's webhooks, and the
// ancestors of these streams. Parents come before their children. Sources without such streams are not in the map.
func ReadOnHint(c *config.Config, p config.Pipeline) map[string][]string {
	all := map[string][]string{}
	for _, from := range p.From {
		s, ok := c.Source(from.Text)
		if !ok || s.Webhooks == nil || len(s.Webhooks.Refresh) == 0 {
			continue
		}
		streams, err := c.Select(p.ForSource(from.Text), nil)
		if err != nil {
			continue // cannot happen: Opener.Load refuses such a pipeline
		}
		if names := withParents(streams, s.Webhooks.Refresh); len(names) > 0 {
			all[s.Name] = names
		}
	}
	return all
}

// withParents returns the wanted streams and their ancestors, in the order of the given streams.
func withParents(streams []config.Stream, wanted []string) (names []string) {
	wanted = slices.Clone(wanted)
	for _, s := range slices.Backward(streams) { // parents come before their children
		if slices.Contains(wanted, s.Name) {
			names = append(names, s.Name)
			wanted = append(wanted, s.Parent)
		}
	}
	slices.Reverse(names)
	return names
}

// CheckHints returns an error if a refresh list has a stream that no pipeline reads from the source.
func CheckHints(c *config.Config) error {
	read := map[string]bool{}
	for _, p := range c.Pipelines {
		for source, names := range ReadOnHint(c, p) {
			for _, name := range names {
				read[source+" "+name] = true
			}
		}
	}
	for _, s := range c.Sources {
		if s.Webhooks == nil {
			continue
		}
		for _, name := range s.Webhooks.Refresh {
			if !read[s.Name+" "+name] {
				return c.Fault(s.Webhooks.At, fmt.Sprintf("webhooks of source %s: `refresh` names stream %s, which no pipeline reads", s.Name, name))
			}
		}
	}
	return nil
}
