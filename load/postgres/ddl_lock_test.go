//go:build unix

package postgres

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// widened loads one row of a source into a shared table. The row has a column that the table does not have yet.
func widened(t testing.TB, d *DB, source string) error {
	ctx, k := t.Context(), state.Key{Pipeline: "nightly", Source: source, Stream: "crm.leads"}
	x, err := d.Share(source).Begin(ctx, k, "", load.Pass{Run: runID(2), Whole: true})
	if err != nil {
		return err
	}
	defer x.Rollback()
	table := rootTable("crm_leads", field("of_"+source, schemas.Int64))
	b := loadtest.Batch(t, table, row(2, 1, "h", loadtest.Row{"id": "1", "of_" + source: "7"}))
	defer b.Release()
	if err := x.Write(ctx, table, b); err != nil {
		return err
	}
	if _, err := x.Apply(ctx, load.Sweep{}); err != nil {
		return err
	}
	return x.Commit(ctx, "c1")
}

// sources returns n names of sources.
func sources(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("s%d", i))
	}
	return names
}

// widenedAll calls widened() for all sources at the same time. At the end, each source must have its row and its
// column.
func widenedAll(t *testing.T, server *pgtest.Server, d *DB, names []string) {
	var all errgroup.Group
	for _, name := range names {
		all.Go(func() error { return widened(t, d, name) })
	}
	require.NoError(t, all.Wait())
	for _, name := range names {
		require.Equal(t, "7", server.Text("SELECT of_"+name+" FROM s.crm_leads WHERE _penstock_source = '"+name+"'"))
	}
}

// In TestLine, eight sources change one table at the same time. The commit of the first source takes longer than the
// lock timeout. The other sources wait for an advisory lock. So they keep their order and block no reader.
func TestLine(t *testing.T) {
	server := pgtest.Shared(t)
	names := sources(8)
	var once sync.Once
	var line, behind string
	var out logged
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	d := open(t, Options{URL: server.URL(), Schema: "s", LockTimeout: 300 * time.Millisecond, Wait: 30 * time.Second, Log: log, Step: func(name string) error {
		if name == "precommit" {
			once.Do(func() {
				for n := 0; n < 100 && server.Text(waiting+"'advisory'") != "7"; n++ {
					time.Sleep(50 * time.Millisecond)
				}
				line, behind = server.Text(waiting+"'advisory'"), server.Text(waiting+"'relation'")
				time.Sleep(time.Second)
			})
		}
		return nil
	}})
	widenedAll(t, server, d, names)
	require.Equal(t, []string{"7", "0"}, []string{line, behind}, "seven sources wait for the advisory lock, and none waits for a table")
	require.NotContains(t, out.text(), "wait for other sources")
}

// logged collects log output. It is safe for concurrent use.
type logged struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(line)
}

func (l *logged) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// In TestLineAndReader, eight sources change a table while a long query reads it. If a session waits for the table,
// later queries of other sessions wait behind it. So no source may wait for the table for long.
func TestLineAndReader(t *testing.T) {
	server := pgtest.Shared(t)
	d := open(t, Options{URL: server.URL(), Schema: "s", LockTimeout: 100 * time.Millisecond, Wait: 30 * time.Second})
	require.NoError(t, widened(t, d, "first"))
	s, err := d.b.pool.acquire(t.Context())
	require.NoError(t, err)
	defer s.drop()
	require.NoError(t, s.run(t.Context(), "BEGIN; SELECT count(*) FROM s.crm_leads"))
	time.AfterFunc(time.Second, s.rollback)
	widenedAll(t, server, d, sources(8))
}

// shareOf begins a transaction of a source, and writes one row with a new column to the shared table.
func shareOf(t *testing.T, d *DB, source, column string) load.Tx {
	x, err := d.Share(source).Begin(t.Context(), state.Key{Pipeline: "nightly", Source: source, Stream: "crm.leads"}, "", load.Pass{Run: runID(2), Whole: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = x.Rollback() })
	table := rootTable("crm_leads", field(column, schemas.Int64))
	b := loadtest.Batch(t, table, row(2, 1, "h", loadtest.Row{"id": "1", column: "7"}))
	defer b.Release()
	require.NoError(t, x.Write(t.Context(), table, b))
	return x
}

const waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = "

// In TestLineReleased, two sources want to make the same change as a third source, and wait for the third source. After
// the commit of the third source, nothing is left to change. Then both waiting sources release the advisory lock and
// continue, before either of them has committed.
func TestLineReleased(t *testing.T) {
	server := pgtest.Shared(t)
	d := open(t, Options{URL: server.URL(), Schema: "s", Wait: time.Second})
	first := shareOf(t, d, "a", "of_a")
	_, err := first.Apply(t.Context(), load.Sweep{})
	require.NoError(t, err)
	others := []load.Tx{shareOf(t, d, "b", "of_a"), shareOf(t, d, "c", "of_a")}
	var all errgroup.Group
	for _, x := range others {
		all.Go(func() error {
			_, err := x.Apply(t.Context(), load.Sweep{})
			return err
		})
	}
	require.Eventually(t, func() bool { return server.Text(waiting+"'advisory'") == "2" }, 5*time.Second, 10*time.Millisecond)
	require.NoError(t, first.Commit(t.Context(), "c1"))
	require.NoError(t, all.Wait())
	require.Equal(t, "0", server.Text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"))
	for _, x := range others {
		require.NoError(t, x.Commit(t.Context(), "c1"))
	}
	require.NoError(t, widened(t, d, "d"), "another source can change the table")
}

// In TestLineChangeBetween, a source reads the columns of a table. Then another source adds a column and records this
// change. Then the first source reads the recorded changes. It must not conclude that a person has changed the table.
func TestLineChangeBetween(t *testing.T) {
	server := pgtest.Shared(t)
	d := open(t, Options{URL: server.URL(), Schema: "s"})
	require.NoError(t, widened(t, d, "a"))
	require.NoError(t, widened(t, d, "b"))
	for i, swept := range []bool{false, true} {
		x := shareOf(t, d, "c", "of_a")
		sweep := load.Sweep{}
		if swept {
			require.NoError(t, x.Rollback())
			var err error
			x, err = d.Share("c").Begin(t.Context(), state.Key{Pipeline: "nightly", Source: "c", Stream: "crm.leads"}, "", load.Pass{Run: runID(2), Whole: true})
			require.NoError(t, err)
			sweep.Table = "crm_leads"
		}
		other, err := d.b.pool.acquire(t.Context())
		require.NoError(t, err)
		require.NoError(t, other.run(t.Context(), "BEGIN; LOCK TABLE s._penstock_schema IN ACCESS EXCLUSIVE MODE"))
		done := make(chan error, 1)
		go func() {
			_, err := x.Apply(t.Context(), sweep)
			done <- err
		}()
		require.Eventually(t, func() bool { return server.Text(waiting+"'relation'") == "1" }, 5*time.Second, 10*time.Millisecond)
		require.NoError(t, other.run(t.Context(), fmt.Sprintf(`ALTER TABLE s.crm_leads ADD COLUMN between_%d bigint;
			INSERT INTO s._penstock_schema SELECT at + interval '1 s', run, "table", 'between_%[1]d', '/between', action, from_type, to_type, reason FROM s._penstock_schema WHERE "column" = 'of_b'; COMMIT`, i)))
		other.release()
		require.NoError(t, <-done)
		require.NoError(t, x.Rollback())
	}
}
