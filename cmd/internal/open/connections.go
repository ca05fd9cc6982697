package open

import (
	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/fleet/sizing"
	"github.com/penstock-data/penstock/state/postgres"
)

// Connections limits how many connections a process has to each server of Postgres, for the state and the destinations
// together. The zero value sets no limit: then the state and each destination have the default limits of their own.
//
// The state and the destinations have separate connections. So a transaction of a destination never waits for a
// connection that another such transaction has, while that transaction waits for the state.
type Connections struct {
	Most   int  // connections to one server
	Listen bool // one of the connections to the state database listens for new jobs
}

// ConnectionsFor returns the limit of a daemon that reads the given number of sources at once.
func ConnectionsFor(slots int) Connections {
	return Connections{Most: sizing.Connections(slots), Listen: slots > 0}
}

// fewest is the smallest number of connections that the state or a destination works with. A transaction of a
// destination may need a second connection, for a read.
const fewest = 2

// forState returns how many connections the state database gets. 0 means the default limit.
func (n Connections) forState(c *config.Config, kinds Kinds) int {
	if n.Most == 0 {
		return 0
	}
	state, _ := n.split(c, kinds, postgres.ServerOf(c.State.URL.Reveal()))
	return state
}

// limited returns a copy of a destination with the number of connections that it gets.
func (n Connections) limited(c *config.Config, kinds Kinds, k Kind, d config.Destination) config.Destination {
	if n.Most > 0 && k.Server != nil {
		all, ok := c.Destination(d.Name) // d may come from [config.Destination.For]
		if !ok {
			all = d
		}
		_, d.Connections = n.split(c, kinds, k.Server(all.For(anySource)))
	}
	return d
}

// anySource is the name of a source in the place of {source}. A URL with {source} in its user or host is not valid.
const anySource = "x"

// split divides the connections to a server. It returns how many of them the state gets, and how many each URL of a
// destination on this server gets. If the state is on this server too, half of the connections are divided among the
// URLs, and the state gets the rest. But each URL and the state get at least the number that they need, so with many
// URLs the state gets less than half, and all of them together more than the limit.
//
// If {source} is in a URL, each source has connections of its own. Then each source gets the smallest number, and the
// number of sources that are read at once decides how many connections there are.
func (n Connections) split(c *config.Config, kinds Kinds, server string) (state, each int) {
	urls, least, perSource := map[string]bool{}, fewest, false
	for _, d := range c.Destinations {
		if k, err := kinds.Of(c, d); err == nil && k.Server != nil && k.Server(d.For(anySource)) == server {
			urls[d.URL.Reveal()] = true
			least = max(least, d.Together+1)
			perSource = perSource || d.For(anySource).URL != d.URL
		}
	}
	most, shared := n.Most, c.State.URL != "" && postgres.ServerOf(c.State.URL.Reveal()) == server
	switch {
	case len(urls) == 0:
		return most, most
	case perSource:
		each = least
	case shared:
		each = max(least, most/2/len(urls))
	default:
		each = max(least, most/len(urls))
	}
	least = fewest
	if n.Listen {
		least++ // while a run is planned, one connection is busy for long, and leases are renewed over the other
	}
	return max(least, most-each*len(urls)), each
}
