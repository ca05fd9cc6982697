//go:build unix

package postgres

import (
	"fmt"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/statetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var schemas atomic.Int64

func in(t *testing.T, at string) string {
	t.Helper()
	u, err := url.Parse(at)
	require.NoError(t, err)
	q := u.Query()
	q.Set("search_path", fmt.Sprintf("state %d", schemas.Add(1)))
	u.RawQuery = q.Encode()
	s := New(Options{URL: u.String()})
	from, to, err := s.Migrate(t.Context())
	require.NoError(t, err)
	require.Equal(t, int64(0), from)
	require.Equal(t, int64(latest), to)
	require.NoError(t, s.Close())
	return u.String()
}

// through() returns the database URL in the parameter `at`, with the host of the pooler in place of the database's
// host.
func through(t *testing.T, pooler, at string) string {
	t.Helper()
	to, err := url.Parse(pooler)
	require.NoError(t, err)
	u, err := url.Parse(at)
	require.NoError(t, err)
	u.Host = to.Host
	return u.String()
}

func key(t *testing.T) string {
	t.Helper()
	k, err := age.GenerateX25519Identity()
	require.NoError(t, err)
	return k.String()
}

func TestPostgresConforms(t *testing.T) {
	server := pgtest.Start(t)
	statetest.Run(t, statetest.Rig{Shared: true, Fresh: func(t *testing.T) func() state.Store {
		o := Options{URL: in(t, server.URL()), Keys: key(t)}
		return func() state.Store { return New(o) }
	}})
}

// The conformance suite also succeeds if all connections go through a PgBouncer in transaction mode. All stores share
// its few sessions. A migration through the PgBouncer is refused.
func TestPoolerConforms(t *testing.T) {
	server := pgtest.Start(t)
	pooler := server.Pooler(t, "default_pool_size = 8")
	s := New(Options{URL: through(t, pooler, server.URL())})
	_, _, err := s.Migrate(t.Context())
	require.ErrorIs(t, err, ErrPooled)
	require.NoError(t, s.Close())
	statetest.Run(t, statetest.Rig{Shared: true, Fresh: func(t *testing.T) func() state.Store {
		o := Options{URL: through(t, pooler, in(t, server.URL())), Keys: key(t)}
		return func() state.Store { return New(o) }
	}})
}

// The options limit the connections of a store, unless the URL has a limit. The connection for LISTEN is one of them.
// Through a pooler, LISTEN does not work, so that connection is left to the pool.
func TestConnections(t *testing.T) {
	server := pgtest.Start(t)
	pooler := server.Pooler(t)
	for _, c := range []struct {
		o    Options
		want int32
	}{
		{Options{URL: server.URL()}, mostConnections},
		{Options{URL: server.URL(), Connections: 4}, 4},
		{Options{URL: server.URL(), Connections: 4, Listen: true}, 3},
		{Options{URL: pooler, Connections: 4, Listen: true}, 4},
		{Options{URL: server.URL() + "&pool_max_conns=6", Connections: 4, Listen: true}, 6},
	} {
		s := New(c.o)
		d, err := s.connections(t.Context())
		require.NoError(t, err)
		require.Equal(t, c.want, d.Config().MaxConns, c.o)
		require.NoError(t, s.Close())
	}
}

// A process may have all of its connections as soon as it knows whether there is a pooler: the connection that it has made
// to find out is closed on both sides.
func TestDetectionLeavesNoConnection(t *testing.T) {
	pooler := pgtest.Start(t).Pooler(t)
	admin, err := url.Parse(pooler)
	require.NoError(t, err)
	admin.Path = "/pgbouncer" // PgBouncer's own database
	c, err := pgconn.Connect(t.Context(), admin.String())
	require.NoError(t, err)
	defer c.Close(t.Context())
	clients := func() (n int) {
		results, err := c.Exec(t.Context(), "SHOW CLIENTS").ReadAll()
		require.NoError(t, err)
		return len(results[0].Rows)
	}
	require.Eventually(t, func() bool { return clients() == 1 }, time.Minute, 10*time.Millisecond)
	for range 20 {
		s := New(Options{URL: pooler})
		pooled, err := s.Pooled(t.Context())
		require.NoError(t, err)
		require.True(t, pooled)
		require.Equal(t, 1, clients())
		require.NoError(t, s.Close())
	}
}

func TestServerOf(t *testing.T) {
	for url, want := range map[string]string{
		"postgres://u:p@DB.example:6432/x?pool_max_conns=4": "db.example:6432", "postgresql://u@db.example/x": "db.example:5432", "postgres://u@db:x/": "",
	} {
		require.Equal(t, want, ServerOf(url), url)
	}
}
