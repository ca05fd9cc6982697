package open

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state/postgres"
)

// The connections of the state and of all destinations on one server add up to 4 + slots/2, rounded up. If the state is on another
// server, both servers have this limit.
func TestConnectionsFor(t *testing.T) {
	t.Parallel()
	const one, two = "postgres://u@one/db", "postgres://u@two/db"
	for name, c := range map[string]struct {
		slots       int
		state       string
		to          []config.Destination
		store, each int
	}{
		"serve without slots":             {0, one, []config.Destination{{URL: one}}, 2, 2},
		"one slot":                        {1, one, []config.Destination{{URL: one}}, 3, 2},
		"two slots":                       {2, one, []config.Destination{{URL: one}}, 3, 2},
		"eight slots":                     {8, one, []config.Destination{{URL: one}}, 4, 4},
		"sixteen slots":                   {16, one, []config.Destination{{URL: one}}, 6, 6},
		"another database of the server":  {16, one, []config.Destination{{URL: one}, {URL: "postgres://u@one:5432/other"}}, 6, 3},
		"two schemas of a database":       {16, one, []config.Destination{{URL: one, Schema: "a"}, {URL: one, Schema: "b"}}, 6, 6},
		"two schemas that a pass writes":  {2, one, []config.Destination{{URL: one, Together: 2}, {URL: one, Together: 2}}, 3, 3},
		"the state on another server":     {8, two, []config.Destination{{URL: one}}, 8, 8},
		"a destination on another server": {8, one, []config.Destination{{URL: two}, {URL: one}}, 4, 8},
		"the state is a folder":           {8, "", []config.Destination{{URL: one}}, 0, 8},
		"a user for each source":          {16, one, []config.Destination{{URL: "postgres://{source}@one/db"}}, 10, 2},
		"a host for each source":          {16, one, []config.Destination{{URL: "postgres://u@{source}.example/db"}}, 12, 2},
		"a database for each source":      {8, one, []config.Destination{{URL: "postgres://u@one/{source}"}}, 6, 2},
	} {
		for i := range c.to {
			c.to[i].Scheme = "postgres"
		}
		o := &Opener{Connections: ConnectionsFor(c.slots), Kinds: []Kind{{
			Scheme: "postgres", Server: func(d config.Destination) string { return postgres.ServerOf(d.URL.Reveal()) },
		}}}
		conf := &config.Config{State: config.State{URL: wire.Secret(c.state)}, Destinations: c.to}
		if c.state != "" {
			require.Equal(t, c.store, o.Connections.forState(conf, o.Kinds), name)
		}
		require.Equal(t, c.each, o.Connections.limited(conf, o.Kinds, o.Kinds[0], c.to[0].For("acme")).Connections, name)
	}
}

// A command that is not a daemon sets no limit.
func TestNoConnections(t *testing.T) {
	t.Parallel()
	o, d := &Opener{}, config.Destination{URL: "postgres://u@one/db", Scheme: "postgres"}
	require.Zero(t, o.Connections.forState(&config.Config{State: config.State{URL: d.URL}}, nil))
	require.Zero(t, o.Connections.limited(&config.Config{}, nil, Kind{Server: func(config.Destination) string { return "one" }}, d).Connections)
}
