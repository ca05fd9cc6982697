//go:build unix

package postgres

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/state"
)

// countedURL returns a URL of the server, and a function that counts the sessions of this URL on the server.
func countedURL(t *testing.T, server *pgtest.Server, options string) (at string, sessions func() string) {
	name := "counted" + t.Name()
	return server.URL() + "&application_name=" + name + options, func() string {
		return server.Text("SELECT count(*) FROM pg_stat_activity WHERE application_name = " + literal(name))
	}
}

// begun returns a transaction that has written rows and holds a session.
func begun(t *testing.T, d *DB, pass int) load.Tx {
	from, err := d.Cursor(t.Context(), leads)
	require.NoError(t, err)
	x, err := d.Begin(t.Context(), leads, from, load.Pass{Run: runID(pass), Whole: true})
	require.NoError(t, err)
	p := faultParts(pass, 10)[0]
	b := loadtest.Batch(t, p.table, p.rows...)
	defer b.Release()
	require.NoError(t, x.Write(t.Context(), p.table, b))
	_, err = x.Apply(t.Context(), load.Sweep{Table: p.table.Name, Delete: true})
	require.NoError(t, err)
	return x
}

// Destinations of one server use as many sessions as there are transactions at the same time.
func TestServers(t *testing.T) {
	server := pgtest.Shared(t)
	at, sessions := countedURL(t, server, "")
	var servers Servers
	var all []*DB
	for i := range 6 {
		d := open(t, Options{URL: at, Schema: fmt.Sprint("s", i), Servers: &servers})
		loadRows(t, d, 1, faultParts(1, 10)...)
		all = append(all, d)
	}
	require.Equal(t, "1", sessions(), "the destinations were used one after the other, so one session is enough")
	var txs []load.Tx
	for _, d := range all[:3] {
		txs = append(txs, begun(t, d, 2))
	}
	for _, d := range all[3:] {
		loadRows(t, d, 2, faultParts(2, 10)...)
	}
	require.Equal(t, "4", sessions(), "three transactions were open, and the other destinations shared one session")
	for _, x := range txs {
		require.NoError(t, x.Commit(t.Context(), "c2"))
	}
	for i, d := range all {
		faultCheck(t, server, fmt.Sprint("s", i), 2, 10)
		require.NoError(t, d.Close())
	}
	require.Equal(t, "4", sessions(), "the next user gets the sessions")
	d := open(t, Options{URL: at, Schema: "s0", Servers: &servers})
	loadRows(t, d, 3, faultParts(3, 10)...)
	require.Equal(t, "4", sessions())
	require.NoError(t, d.Close())
	require.Eventually(t, func() bool { return sessions() == "0" }, time.Minute, 50*time.Millisecond, "sessions without users are closed")
}

// If a destination is closed, only its own sessions end. The sessions of other destinations stay open.
func TestServersClose(t *testing.T) {
	server := pgtest.Shared(t)
	at, sessions := countedURL(t, server, "")
	var servers Servers
	stays, goes := open(t, Options{URL: at, Schema: "stays", Servers: &servers}), open(t, Options{URL: at, Schema: "goes", Servers: &servers})
	loadRows(t, goes, 1, faultParts(1, 10)...)
	kept, lost := begun(t, stays, 1), begun(t, goes, 2)
	idle, err := goes.b.pool.acquire(t.Context())
	require.NoError(t, err)
	require.NoError(t, goes.Close())
	require.NoError(t, goes.Close(), "the second Close does nothing")
	idle.release()
	require.Error(t, lost.Commit(t.Context(), "c2"))
	_ = lost.Rollback()
	_, err = goes.Cursor(t.Context(), leads)
	require.ErrorIs(t, err, errClosed)
	require.EqualValues(t, 1, stays.b.pool.server.conns.Stat().TotalConns(), "the session that was ended is not used again")
	require.NoError(t, kept.Commit(t.Context(), "c1"))
	faultCheck(t, server, "stays", 1, 10)
	faultCheck(t, server, "goes", 1, 10)
	last := open(t, Options{URL: at, Schema: "last", Servers: &servers})
	servers.Close()
	require.NoError(t, last.Close())
	loadRows(t, stays, 2, faultParts(2, 10)...)
	require.Equal(t, "1", sessions())
	require.NoError(t, stays.Close())
	require.Eventually(t, func() bool { return sessions() == "0" }, time.Minute, 10*time.Millisecond)
}

// If the password changes, new users get sessions with the new password. Earlier users keep their sessions.
func TestServersPassword(t *testing.T) {
	if os.Getenv(pgtest.Env) != "" {
		t.Skip("the test changes pg_hba.conf")
	}
	server := pgtest.Start(t)
	server.Exec("CREATE ROLE penny LOGIN PASSWORD 'one'; CREATE SCHEMA early AUTHORIZATION penny; CREATE SCHEMA late AUTHORIZATION penny")
	server.Exec("COPY (VALUES ('host all penny 127.0.0.1/32 scram-sha-256'), ('host all all 127.0.0.1/32 trust')) TO '" + server.Text("SHOW hba_file") + "'; SELECT pg_reload_conf()")
	passwords := filepath.Join(t.TempDir(), "pgpass")
	change := func(password string) {
		server.Exec("ALTER ROLE penny PASSWORD " + literal(password))
		require.NoError(t, os.WriteFile(passwords, []byte("*:*:*:*:"+password+"\n"), 0o600))
	}
	require.Eventually(t, func() bool {
		d, err := Open(t.Context(), Options{URL: server.As("penny", "wrong")})
		if err == nil {
			_ = d.Close()
		}
		return err != nil
	}, time.Minute, 10*time.Millisecond, "the server asks for passwords")
	at := server.As("penny", "") + "&passfile=" + url.QueryEscape(passwords)
	var servers Servers
	change("one")
	early := open(t, Options{URL: at, Schema: "early", Servers: &servers})
	x := begun(t, early, 1)
	change("two")
	late := open(t, Options{URL: at, Schema: "late", Servers: &servers})
	require.NotSame(t, early.b.pool.server, late.b.pool.server)
	loadRows(t, late, 1, faultParts(1, 10)...)
	require.NoError(t, x.Commit(t.Context(), "c1"))
	require.NoError(t, late.Close())
	loadRows(t, early, 2, faultParts(2, 10)...)
	faultCheck(t, server, "early", 2, 10)
	faultCheck(t, server, "late", 1, 10)
}

// Transactions that write leave one connection for reads.
func TestServersPlaces(t *testing.T) {
	server := pgtest.Shared(t)
	at, _ := countedURL(t, server, "&pool_max_conns=3")
	var servers Servers
	destination := func(i int, wait time.Duration) *DB {
		return open(t, Options{URL: at, Schema: fmt.Sprint("s", i), Servers: &servers, Wait: wait})
	}
	one, other := begun(t, destination(0, 0), 1), begun(t, destination(1, 0), 1)
	third := destination(2, 0)
	require.False(t, third.b.pool.server.writes.free.TryAcquire(1))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		x, err := third.Begin(ctx, leads, "", load.Pass{Run: runID(1), Whole: true})
		if err == nil {
			err = x.Commit(ctx, "c1")
		}
		ended <- err
	}()
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	for range 3 {
		_, err := third.Cursor(t.Context(), leads)
		require.NoError(t, err)
	}
	_, err := attemptLoad(t, destination(3, 10*time.Millisecond), 1, "c1", faultParts(1, 10)...)
	require.ErrorIs(t, err, errBusy)
	require.NotErrorIs(t, err, context.DeadlineExceeded, "the wait for a place has ended, not the context")
	require.NoError(t, one.Rollback())
	loadRows(t, third, 1, faultParts(1, 10)...)
	require.NoError(t, other.Commit(t.Context(), "c1"))
	require.NoError(t, other.Rollback())
	require.True(t, third.b.pool.server.writes.free.TryAcquire(2), "all places are free")
	require.False(t, third.b.pool.server.writes.free.TryAcquire(1), "a transaction gives back its place only once")
}

// Many more transactions than connections commit at the same time, and each reads while it is open.
func TestServersCrowded(t *testing.T) {
	server := pgtest.Shared(t)
	for _, most := range []int{1, 2, 3} { // even for 1, join opens two connections
		at, _ := countedURL(t, server, fmt.Sprint("&pool_max_conns=", most))
		var servers Servers
		var all sync.WaitGroup
		for i := range 8 {
			schema := fmt.Sprint("s", most, i)
			d := open(t, Options{URL: at, Schema: schema, Servers: &servers})
			all.Go(func() {
				for pass := 1; pass <= 3; pass++ {
					assert.NoError(t, loadAndRead(t.Context(), t, d, pass))
				}
			})
		}
		all.Wait()
		for i := range 8 {
			faultCheck(t, server, fmt.Sprint("s", most, i), 3, 10)
		}
	}
}

// loadAndRead makes one commit, and reads the rejects while the transaction is open.
func loadAndRead(ctx context.Context, t testing.TB, d *DB, pass int) error {
	x, err := d.Begin(ctx, leads, state.Cursor(map[bool]string{true: fmt.Sprint("c", pass-1)}[pass > 1]), load.Pass{Run: runID(pass), Whole: true})
	if err != nil {
		return err
	}
	defer x.Rollback()
	for _, p := range faultParts(pass, 10) {
		b := loadtest.Batch(t, p.table, p.rows...)
		err := x.Write(ctx, p.table, b)
		b.Release()
		if err != nil {
			return err
		}
	}
	if _, err := x.Apply(ctx, load.Sweep{Table: "crm_leads", Delete: true}); err != nil {
		return err
	}
	if err := d.Scan(ctx, load.Rejects.Name, nil, func(arrow.RecordBatch) error { return nil }); err != nil {
		return err
	}
	return x.Commit(ctx, state.Cursor(fmt.Sprint("c", pass)))
}

// writeSpilled makes a pass that does not fit into memory. The pass has open transactions at all its destinations at
// the same time. While these transactions are open, it reads from the destinations. The pass's source has the name of
// the first destination's schema. Passes of several sources are parts of the same run.
func writeSpilled(ctx context.Context, t testing.TB, pass int, to ...*DB) error {
	var txs []load.Tx
	for _, d := range to {
		x, err := d.Begin(ctx, leads, state.Cursor(map[bool]string{true: fmt.Sprint("c", pass-1)}[pass > 1]), load.Pass{Run: runID(pass), Source: to[0].Schema(), Whole: true})
		if err != nil {
			return err
		}
		defer x.Rollback()
		for _, p := range faultParts(pass, 10) {
			b := loadtest.Batch(t, p.table, p.rows...)
			err := x.Write(ctx, p.table, b)
			b.Release()
			if err != nil {
				return err
			}
		}
		if _, err := x.Apply(ctx, load.Sweep{Table: "crm_leads", Delete: true}); err != nil {
			return err
		}
		txs = append(txs, x)
	}
	for i, x := range txs {
		if err := to[i].Scan(ctx, load.Rejects.Name, nil, func(arrow.RecordBatch) error { return nil }); err != nil {
			return err
		}
		if err := x.Commit(ctx, state.Cursor(fmt.Sprint("c", pass))); err != nil {
			return err
		}
	}
	return nil
}

// Many passes that do not fit into memory write to two or three destinations of one server. They must not deadlock.
func TestServersTogether(t *testing.T) {
	server := pgtest.Shared(t)
	for _, c := range []struct{ most, together int }{{2, 2}, {3, 2}, {4, 2}, {6, 2}, {2, 3}, {5, 3}} {
		at, _ := countedURL(t, server, fmt.Sprint("&pool_max_conns=", c.most))
		var servers Servers
		var all sync.WaitGroup
		schema := func(i, part int) string { return fmt.Sprint("s", c.most, c.together, i, part) }
		for i := range 6 {
			var to []*DB
			for part := range c.together {
				to = append(to, open(t, Options{URL: at, Schema: schema(i, part), Servers: &servers, Together: c.together}))
			}
			all.Go(func() {
				for pass := 1; pass <= 3; pass++ {
					assert.NoError(t, writeSpilled(t.Context(), t, pass, to...))
				}
			})
		}
		all.Wait()
		for i := range 6 {
			for part := range c.together {
				faultCheck(t, server, schema(i, part), 3, 10)
			}
		}
	}
}

// A destination that needs more places than the server has gets other connections.
func TestServersMorePlaces(t *testing.T) {
	at, _ := countedURL(t, pgtest.Shared(t), "&pool_max_conns=2")
	var servers Servers
	alone := open(t, Options{URL: at, Schema: "alone", Servers: &servers})
	first, second := open(t, Options{URL: at, Schema: "first", Servers: &servers, Together: 2}), open(t, Options{URL: at, Schema: "second", Servers: &servers, Together: 2})
	x := begun(t, alone, 1)
	require.NoError(t, writeSpilled(t.Context(), t, 1, first, second))
	require.NoError(t, x.Commit(t.Context(), "c1"))
	require.Same(t, first.b.pool.server, second.b.pool.server)
	require.EqualValues(t, 3, first.b.pool.server.config.MaxConns)
}

// If a destination is closed, other destinations get the places and the connections of its open transactions. A
// transaction that gets no place fails, and its error names the option that allows more connections.
func TestServersCloseGivesBack(t *testing.T) {
	at, _ := countedURL(t, pgtest.Shared(t), "&pool_max_conns=2")
	var servers Servers
	goes, stays := open(t, Options{URL: at, Schema: "goes", Servers: &servers}), open(t, Options{URL: at, Schema: "stays", Servers: &servers, Wait: 100 * time.Millisecond})
	left := begun(t, goes, 1)
	_, err := attemptLoad(t, stays, 1, "c1", faultParts(1, 10)...)
	require.ErrorIs(t, err, errBusy)
	require.ErrorContains(t, err, "pool_max_conns")
	require.NoError(t, goes.Close())
	require.Zero(t, stays.b.pool.server.conns.Stat().AcquiredConns())
	require.NoError(t, loadAndRead(t.Context(), t, stays, 1))
	require.Error(t, left.Commit(t.Context(), "c1"))
	_ = left.Rollback()
	require.True(t, stays.b.pool.server.writes.free.TryAcquire(1))
	require.False(t, stays.b.pool.server.writes.free.TryAcquire(1), "the place is given back only once")
}

// Options.Connections limits the connections to a URL, unless the URL has a limit of its own. A destination that may have
// more connections gets other ones.
func TestServersConnections(t *testing.T) {
	server := pgtest.Shared(t)
	var servers Servers
	at, _ := countedURL(t, server, "")
	limit := func(d *DB) int32 { return d.b.pool.server.conns.Config().MaxConns }
	few := open(t, Options{URL: at, Schema: "few", Servers: &servers, Connections: 2})
	require.EqualValues(t, 2, limit(few))
	more := open(t, Options{URL: at, Schema: "more", Servers: &servers, Connections: 4})
	require.EqualValues(t, 4, limit(more))
	require.EqualValues(t, 4, limit(open(t, Options{URL: at, Schema: "last", Servers: &servers, Connections: 2})))
	require.EqualValues(t, 3, limit(open(t, Options{URL: at + "&pool_max_conns=3", Schema: "own", Servers: &servers, Connections: 8})))
	require.EqualValues(t, defaultConns, limit(open(t, Options{URL: server.URL(), Schema: "default"})))
}
