//go:build unix

package postgres

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/pgerror"
)

// faultParts returns the records of pass p. In each pass, a third of the records have changed, and one record is
// missing. The second pass adds a column. The third pass adds a child table.
func faultParts(p, records int) []part {
	columns := []string{"name"}
	table := rootTable("crm_leads", field("name", schemas.Text))
	if p >= 2 {
		columns = append(columns, "v")
		table = rootTable("crm_leads", field("name", schemas.Text), field("v", schemas.Int64))
	}
	items := part{table: itemTable("crm_leads", field("n", schemas.Int64))}
	root := part{table: table}
	for id := range records {
		if id == p {
			continue
		}
		version := p - (p+id)%3
		cells := loadtest.Row{"id": fmt.Sprint(id), "name": fmt.Sprint("v", version)}
		if len(columns) > 1 {
			cells["v"] = fmt.Sprint(version)
		}
		hash := fmt.Sprint(version, p >= 2, p >= 3)
		root.rows = append(root.rows, row(p, id, hash, cells))
		items.rows = append(items.rows, row(p, id, hash, loadtest.Row{"n": fmt.Sprint(version), schemas.ColParent: fmt.Sprint(id), schemas.ColIndex: "0"}))
	}
	if p < 3 {
		return []part{root}
	}
	return []part{root, items}
}

// faultCheck checks that the tables have the content that pass p leaves.
func faultCheck(t testing.TB, server *pgtest.Server, schema string, p, records int) {
	t.Helper()
	at := ident(schema) + "."
	require.Equal(t, fmt.Sprint("c", p), server.Text("SELECT cursor FROM "+at+"_penstock_state"))
	require.Equal(t, fmt.Sprint(records-1), server.Text("SELECT count(*) FROM "+at+`"crm_leads" WHERE _penstock_deleted_at IS NULL`))
	require.Equal(t, "0", server.Text("SELECT count(*) FROM "+at+`"crm_leads" WHERE _penstock_deleted_at IS NULL AND name <> 'v' || (`+fmt.Sprint(p)+` - (`+fmt.Sprint(p)+` + id) % 3)::text`))
	if p >= 3 {
		require.Equal(t, "0", server.Text("SELECT count(*) FROM "+at+`"crm_leads" r FULL JOIN `+at+`"crm_leads__items" i ON r.id = i._penstock_parent
			WHERE coalesce(r._penstock_deleted_at, i._penstock_deleted_at) IS NULL AND (r.id IS NULL OR i.n IS NULL OR i.n <> r.v)`))
	}
}

// TestRestart stops the server immediately, as in a crash: at each step of three passes, and at random moments of a
// COPY.
func TestRestart(t *testing.T) {
	server := pgtest.Start(t)
	const records = 60
	for at := 1; ; at++ {
		schema := fmt.Sprint("step ", at)
		var n atomic.Int64
		d := open(t, Options{URL: server.URL(), Schema: schema, Step: func(string) error {
			if n.Add(1) == int64(at) {
				server.Restart(true)
			}
			return nil
		}})
		for p := 1; p <= 3; p++ {
			loadRows(t, d, p, faultParts(p, records)...)
			faultCheck(t, server, schema, p, records)
		}
		require.NoError(t, d.Close())
		server.Exec("DROP SCHEMA " + ident(schema) + " CASCADE")
		if n.Load() < int64(at) {
			require.Greater(t, at, 20, "the test has stopped the server at more than 20 steps")
			return
		}
		if testing.Short() {
			at += 6
		}
	}
}

func TestRestartMidCopy(t *testing.T) {
	server := pgtest.Start(t)
	const records = 40_000
	for i := range 6 {
		schema := fmt.Sprint("copy ", i)
		var once sync.Once
		var wg sync.WaitGroup
		d := open(t, Options{URL: server.URL(), Schema: schema, Step: func(name string) error {
			if name == "copy" || name == "children" {
				once.Do(func() {
					wg.Go(func() {
						time.Sleep(rand.N(150 * time.Millisecond))
						server.Restart(true)
					})
				})
			}
			return nil
		}})
		loadRows(t, d, 3, faultParts(3, records)...)
		wg.Wait()
		faultCheck(t, server, schema, 3, records)
		require.NoError(t, d.Close())
	}
}

// TestLostCommit repeatedly loses COMMIT requests or their answers. Each transaction must be committed exactly once,
// and reported as committed.
func TestLostCommit(t *testing.T) {
	server := pgtest.Shared(t)
	p := newProxy(t, server.Address())
	d := open(t, Options{URL: server.Via(p.listener.Addr().String()), Schema: "s"})
	loadRows(t, d, 1, faultParts(1, 10)...)
	for i := range 60 {
		run := i + 2
		p.lose(i%3, i%2)
		parts := faultParts(run, 10)
		out := loadRows(t, d, run, parts...)
		require.Equal(t, i%3+i%2, p.count(), "the proxy lost all requests and answers that it should lose")
		require.EqualValues(t, len(parts[0].rows), out.Unchanged+out.Written)
		require.Equal(t, fmt.Sprint(run), server.Text("SELECT sequence FROM s._penstock_state"))
	}
}

// TestSlowCommit loses the answer to a COMMIT that the server is still processing. If penstock did not wait for the
// stream's lock before it reads the outcome, it would find that nothing is committed.
func TestSlowCommit(t *testing.T) {
	server := pgtest.Shared(t)
	p := newProxy(t, server.Address())
	d := open(t, Options{URL: server.Via(p.listener.Addr().String()), Schema: "s"})
	loadRows(t, d, 1, faultParts(1, 10)...)
	server.Exec(`CREATE SEQUENCE s.commits; CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(2), nextval('s.commits'); RETURN NULL; END $$;
		CREATE CONSTRAINT TRIGGER slow AFTER UPDATE ON s._penstock_state DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION slow()`)
	p.lose(0, 1)
	begin := time.Now()
	loadRows(t, d, 2, faultParts(2, 10)...)
	require.Greater(t, time.Since(begin), 1900*time.Millisecond, "the load waits for the server's COMMIT")
	require.Equal(t, "1", server.Text("SELECT last_value FROM s.commits"), "the transaction is committed once")
	require.Equal(t, 1, p.count())
	faultCheck(t, server, "s", 2, 10)
	require.Equal(t, "2", server.Text("SELECT sequence FROM s._penstock_state"))
}

// In TestConnectionsExhausted, the server has no free connection. The destination waits for one.
func TestConnectionsExhausted(t *testing.T) {
	server := pgtest.Start(t, "max_connections=8", "superuser_reserved_connections=3")
	server.Exec("CREATE ROLE penny LOGIN; CREATE SCHEMA s AUTHORIZATION penny")
	d := open(t, Options{URL: server.As("penny", ""), Schema: "s"})
	loadRows(t, d, 1, faultParts(1, 10)...)
	require.NoError(t, d.Close())
	var others []*DB
	for range 5 {
		o := open(t, Options{URL: server.As("penny", ""), Schema: "s", Wait: 5 * time.Second})
		s, err := o.b.pool.acquire(t.Context())
		require.NoError(t, err)
		others = append(others, o)
		t.Cleanup(s.drop)
	}
	_, err := Open(t.Context(), Options{URL: server.As("penny", ""), Schema: "s", Wait: 100 * time.Millisecond})
	require.Equal(t, "53300", pgerror.Code(err))
	time.AfterFunc(time.Second, func() { _ = others[0].Close() })
	d = open(t, Options{URL: server.As("penny", ""), Schema: "s"})
	loadRows(t, d, 2, faultParts(2, 10)...)
	faultCheck(t, server, "s", 2, 10)
}

// In TestLockHeld, another session has locked a table. The destination waits.
func TestLockHeld(t *testing.T) {
	server := pgtest.Shared(t)
	d := open(t, Options{URL: server.URL(), Schema: "s", LockTimeout: 200 * time.Millisecond})
	loadRows(t, d, 1, faultParts(1, 10)...)
	other := open(t, Options{URL: server.URL(), Schema: "s"})
	s, err := other.b.pool.acquire(t.Context())
	require.NoError(t, err)
	defer s.drop()
	require.NoError(t, s.run(t.Context(), "BEGIN; LOCK TABLE s.crm_leads IN ACCESS SHARE MODE"))
	time.AfterFunc(time.Second, func() { s.rollback() })
	loadRows(t, d, 2, faultParts(2, 10)...) // adds a column, which needs an exclusive lock
	faultCheck(t, server, "s", 2, 10)
}

// TestOwnTablesDropped drops penstock's own tables between two commits.
func TestOwnTablesDropped(t *testing.T) {
	server := pgtest.Shared(t)
	d := open(t, Options{URL: server.URL(), Schema: "s"})
	loadRows(t, d, 1, faultParts(1, 10)...)
	server.Exec("DROP TABLE s._penstock_state, s._penstock_schema")
	out := loadRows(t, d, 2, faultParts(2, 10)...)
	require.EqualValues(t, 1, out.Deleted, "penstock continues to use the existing table")
	faultCheck(t, server, "s", 2, 10)
	tables, err := d.Tables(t.Context(), "crm_leads")
	require.NoError(t, err)
	require.Equal(t, []string{"id"}, tables[0].Key)
	require.True(t, tables[0].Columns.HasField("v"))
}

// TestOwnIndexes: penstock's own tables without a key have an index. Otherwise the search for the newest certificates of
// one source would read those of all sources and all nights.
func TestOwnIndexes(t *testing.T) {
	server := pgtest.Shared(t)
	for source, first := range map[string]string{"": "", "ann": "_penstock_source, "} {
		schema := "indexes" + source
		d := open(t, Options{URL: server.URL(), Schema: schema})
		require.NoError(t, load.CommitRows(t.Context(), d, state.Key{Pipeline: "p", Source: source, Stream: "s"}, "", "1", load.Pass{Run: "r", Now: time.Now}, load.Runs, []any{"r", "p", time.Now(), nil, "running", `{}`, nil}))
		require.Equal(t, fmt.Sprintf("_penstock_certificates (%[1]spipeline, stream, run) _penstock_changes (%[1]spipeline, at) _penstock_checks (%[1]spipeline, stream, at) _penstock_events (%[1]ssource, received_at)", first),
			server.Text(`SELECT string_agg(tablename || ' ' || substring(indexdef from '[(].*'), ' ' ORDER BY tablename) FROM pg_indexes WHERE schemaname = '`+schema+`' AND indexname LIKE '%_idx'`))
		require.NoError(t, d.Close())
	}
}

var _ load.Destination = (*DB)(nil)
