//go:build unix

package postgres

import (
	"context"
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

// widened loads one row of a source into a shared table, with a new column.
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

// widenedAll calls widened for all sources at the same time. Each source gets its row and its column.
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

// In TestLine, eight sources change one table at the same time. The commit of the first one takes longer than the
// lock timeout. The others wait for their turn, none loses its place, and they block no reader.
func TestLine(t *testing.T) {
	server := pgtest.Start(t)
	names, waiting := sources(8), "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"
	var once sync.Once
	var line, behind string
	var out logged
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	d := open(t, Options{URL: server.URL(), Schema: "s", LockTimeout: 300 * time.Millisecond, Wait: 30 * time.Second, Log: log, Step: func(name string) error {
		if name == "precommit" {
			once.Do(func() {
				for n := 0; n < 100 && server.Text(waiting) != "7"; n++ {
					time.Sleep(50 * time.Millisecond)
				}
				line, behind = server.Text(waiting), server.Text("SELECT count(*) FROM pg_locks WHERE locktype = 'relation' AND NOT granted")
				time.Sleep(time.Second)
			})
		}
		return nil
	}})
	widenedAll(t, server, d, names)
	require.Equal(t, []string{"7", "0"}, []string{line, behind}, "they wait for the advisory lock, not for a table")
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

// In TestLineAndReader, eight sources change a table that a long query is reading. None of them waits so long for the
// table that it blocks other queries.
func TestLineAndReader(t *testing.T) {
	server := pgtest.Start(t)
	d := open(t, Options{URL: server.URL(), Schema: "s", LockTimeout: 100 * time.Millisecond, Wait: 30 * time.Second})
	require.NoError(t, widened(t, d, "first"))
	s, err := d.acquire(t.Context())
	require.NoError(t, err)
	defer s.drop()
	require.NoError(t, s.run(t.Context(), "BEGIN; SELECT count(*) FROM s.crm_leads"))
	time.AfterFunc(time.Second, s.rollback)
	widenedAll(t, server, d, sources(8))
}

// In TestLineReleased, a source finds that nothing is left to change. It continues, although a source behind it has
// not committed.
func TestLineReleased(t *testing.T) {
	server := pgtest.Start(t)
	d := open(t, Options{URL: server.URL(), Schema: "s", Wait: time.Second})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	require.NoError(t, widened(t, d, "a"))
	s, err := d.acquire(ctx)
	require.NoError(t, err)
	defer s.drop()
	require.NoError(t, d.begin(ctx, s))
	x := &tx{db: d, key: state.Key{Source: "b"}, attempt: attempt{s: s}}
	m := &merge{tx: x, ctx: ctx, out: &load.Outcome{}}
	staged := []*load.Staged{{Table: load.ShareTable(rootTable("crm_leads", field("of_a", schemas.Int64)))}}
	none := &catalog{} // as it was before a created the table
	c, err := m.serializeDDL(none, staged, "", []string{"crm_leads"})
	require.NoError(t, err)
	require.NotNil(t, c.live["crm_leads"])
	require.Equal(t, "0", server.Text("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"))
	require.NoError(t, widened(t, d, "c"), "it changes the table at the same time as the other")
}

// In TestLineChangeBetween, a source reads the table before another source's change, and the recorded changes after
// it. It must not conclude that a person has changed the table.
func TestLineChangeBetween(t *testing.T) {
	server := pgtest.Start(t)
	d := open(t, Options{URL: server.URL(), Schema: "s"})
	require.NoError(t, widened(t, d, "a"))
	s, err := d.acquire(t.Context())
	require.NoError(t, err)
	defer s.drop()
	names := []string{"crm_leads"}
	read := func() *catalog {
		require.NoError(t, d.begin(t.Context(), s))
		c, err := d.readCatalog(t.Context(), s, names)
		require.NoError(t, err)
		return c
	}
	before := read()
	s.rollback()
	require.NoError(t, widened(t, d, "b"))
	torn := read()
	torn.live = before.live
	_, err = torn.table("crm_leads")
	require.ErrorContains(t, err, `column "of_b" is gone`)
	m := &merge{tx: &tx{db: d, key: state.Key{Source: "a"}, attempt: attempt{s: s}}, ctx: t.Context(), out: &load.Outcome{}}
	staged := []*load.Staged{{Table: load.ShareTable(rootTable("crm_leads", field("of_a", schemas.Int64)))}}
	for swept, pending := range map[string][]*load.Staged{"": staged, "crm_leads": nil} {
		c, err := m.serializeDDL(torn, pending, swept, names)
		require.NoError(t, err)
		_, err = c.table("crm_leads")
		require.NoError(t, err)
	}
}
