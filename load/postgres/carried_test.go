//go:build unix

package postgres

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// slowList is a stream whose passes take several commits. Its keys are texts. An unfinished pass stores the key of each
// record that it has found unchanged.
type slowList struct {
	key   state.Key
	table schemas.Table
}

func newSlowList(i int) slowList {
	name := fmt.Sprint("list_", i)
	t := rootTable(name)
	fields := t.Columns.Fields()
	fields[0] = schemas.Field("id", schemas.Text, "/id")
	t.Columns = arrow.NewSchema(fields, nil)
	return slowList{state.Key{Pipeline: "nightly", Stream: "own." + name}, t}
}

// rows returns the records with the given ids.
func (l slowList) rows(run int, ids ...int) (all []loadtest.Row) {
	for _, id := range ids {
		all = append(all, row(run, id, "same", loadtest.Row{"id": fmt.Sprintf("%x", 7919*id%1000)}))
	}
	return all
}

// commit makes one transaction with the given records, in the pass of the given run. If the parameter `last` is true,
// the transaction ends the pass: the rows that no transaction of the pass has read are marked as deleted.
func (l slowList) commit(t testing.TB, d *DB, run int, last bool, ids ...int) (load.Outcome, error) {
	t.Helper()
	from, err := d.Cursor(t.Context(), l.key)
	require.NoError(t, err)
	x, err := d.Begin(t.Context(), l.key, from, load.Pass{Run: runID(run), Whole: true})
	require.NoError(t, err)
	defer x.Rollback()
	b := loadtest.Batch(t, l.table, l.rows(run, ids...)...)
	defer b.Release()
	require.NoError(t, x.Write(t.Context(), l.table, b))
	s := load.Sweep{}
	if last {
		s = load.Sweep{Table: l.table.Name, Delete: true}
	}
	out, err := x.Apply(t.Context(), s)
	if err != nil {
		return out, err
	}
	return out, x.Commit(t.Context(), from+"x")
}

// must does the same as commit(), and fails the test after an error.
func (l slowList) must(t testing.TB, d *DB, run int, last bool, ids ...int) load.Outcome {
	t.Helper()
	out, err := l.commit(t, d, run, last, ids...)
	require.NoError(t, err)
	return out
}

const countPassTables = "SELECT count(*) FROM pg_class WHERE relname LIKE '\\_penstock\\_pass\\_%' AND relkind = 'r'"

// Twenty-four passes, each with three commits, run at the same time over two connections. At the end, each pass must
// have all of its carried keys. No session may be held between commits, and no table may be left. The test also runs
// with a single pass.
func TestManyPasses(t *testing.T) {
	server := pgtest.Shared(t)
	for name, lists := range map[string]int{"many": 24, "one": 1} {
		t.Run(name, func(t *testing.T) {
			d := open(t, Options{URL: server.URL() + "&pool_max_conns=2", Schema: name})
			var all []slowList
			for i := range lists {
				all = append(all, newSlowList(i))
				all[i].must(t, d, 1, true, 1, 2, 3, 4, 5, 6, 7)
			}
			require.Equal(t, "0", server.Text(countPassTables), "a pass of one commit leaves no table")
			for part := range 2 {
				for _, l := range all {
					require.Equal(t, load.Outcome{Unchanged: 2}, l.must(t, d, 2, false, 2*part+1, 2*part+2))
					require.Zero(t, d.b.pool.server.conns.Stat().AcquiredConns(), "no session is held between commits")
				}
				require.Equal(t, fmt.Sprint(lists), server.Text(countPassTables))
			}
			for _, l := range all {
				out := l.must(t, d, 2, true, 5, 6, 1)
				require.Equal(t, load.Outcome{Unchanged: 2, Deduplicated: 1, Alive: 7, Missing: 1, Known: true, Deleted: 1}, out)
			}
			require.Equal(t, "0", server.Text(countPassTables))
			require.NoError(t, d.Close())
		})
	}
}

// After a crash of the server, the table of carried keys is empty. The pass then does not know which rows are missing,
// and deletes nothing. After a regular shutdown, the table still has the keys.
func TestCarriedOverRestart(t *testing.T) {
	server := pgtest.Start(t)
	for _, crash := range []bool{true, false} {
		t.Run(fmt.Sprint("crash=", crash), func(t *testing.T) {
			d := open(t, Options{URL: server.URL(), Schema: fmt.Sprint("s", crash)})
			l := newSlowList(0)
			l.must(t, d, 1, true, 1, 2, 3, 4, 5)
			l.must(t, d, 2, false, 1, 2)
			server.Exec("CHECKPOINT")
			server.Restart(crash)
			l.must(t, d, 2, false, 3)
			out := l.must(t, d, 2, true, 4)
			if crash {
				require.Equal(t, load.Outcome{Unchanged: 1, Alive: 5, Missing: 3, Known: false}, out)
			} else {
				require.Equal(t, load.Outcome{Unchanged: 1, Alive: 5, Missing: 1, Known: true, Deleted: 1}, out)
			}
			require.Equal(t, "0", server.Text(countPassTables))
		})
	}
}

// A killed process leaves tables of carried keys for two streams. Another process takes over one of the streams and
// drops the table of this stream. The table of the other stream stays. If the first process continues later, it cannot
// commit to the stream that was taken over. // Invariant 13
func TestCarriedAfterKill(t *testing.T) {
	server := pgtest.Shared(t)
	frozen := open(t, Options{URL: server.URL(), Schema: "s"})
	l, other := newSlowList(0), newSlowList(1)
	for _, l := range []slowList{l, other} {
		l.must(t, frozen, 1, true, 1, 2, 3)
		l.must(t, frozen, 2, false, 1, 2)
	}
	from, err := frozen.Cursor(t.Context(), l.key)
	require.NoError(t, err)
	late, err := frozen.Begin(t.Context(), l.key, from, load.Pass{Run: runID(2), Whole: true})
	require.NoError(t, err)
	require.Equal(t, "2", server.Text(countPassTables))

	next := open(t, Options{URL: server.URL(), Schema: "s"})
	l.must(t, next, 3, true, 1, 2, 3)
	require.Equal(t, "1", server.Text(countPassTables), "only the table of the other stream is left")
	_, err = late.Apply(t.Context(), load.Sweep{Table: l.table.Name, Delete: true})
	require.ErrorIs(t, err, state.ErrMoved)
	require.Equal(t, load.Outcome{Unchanged: 1, Alive: 3, Known: true}, other.must(t, frozen, 2, true, 3))
	require.Equal(t, "0", server.Text(countPassTables))
}

// The table of an abandoned pass is dropped when the next pass begins, or when the destination is closed.
func TestCarriedAbandoned(t *testing.T) {
	server := pgtest.Shared(t)
	d := open(t, Options{URL: server.URL(), Schema: "s"})
	l := newSlowList(0)
	l.must(t, d, 1, true, 1, 2, 3)
	l.must(t, d, 2, false, 1, 2)
	require.Equal(t, "1", server.Text(countPassTables))
	l.must(t, d, 3, true, 1, 2, 3)
	require.Equal(t, "0", server.Text(countPassTables))
	l.must(t, d, 4, false, 1, 2)
	require.Equal(t, "1", server.Text(countPassTables))
	require.NoError(t, d.Close())
	require.Equal(t, "0", server.Text(countPassTables))
}

// A backup reads all tables of the schema. It must not delay commits. If a table cannot be dropped during the backup,
// it is dropped later.
func TestCarriedDuringBackup(t *testing.T) {
	server := pgtest.Shared(t)
	d := open(t, Options{URL: server.URL(), Schema: "s"})
	l := newSlowList(0)
	l.must(t, d, 1, true, 1, 2, 3)
	l.must(t, d, 2, false, 1, 2)
	c, err := pgx.Connect(t.Context(), server.URL())
	require.NoError(t, err)
	defer c.Close(context.Background())
	table := server.Text("SELECT relname FROM pg_class WHERE relname LIKE '\\_penstock\\_pass\\_%' AND relkind = 'r'")
	_, err = c.Exec(t.Context(), "BEGIN; LOCK TABLE s."+table+" IN ACCESS SHARE MODE")
	require.NoError(t, err)
	began := time.Now()
	require.Equal(t, load.Outcome{Unchanged: 1, Alive: 3, Known: true}, l.must(t, d, 2, true, 3))
	require.Less(t, time.Since(began), 8*time.Second) // a wait for the lock takes 10 s
	require.Equal(t, "1", server.Text(countPassTables))
	_, err = c.Exec(t.Context(), "COMMIT")
	require.NoError(t, err)
	d.b.passes.mu.Lock()
	d.b.passes.cleaned = time.Time{}
	d.b.passes.mu.Unlock()
	l.must(t, d, 3, true, 1, 2, 3)
	require.Equal(t, "0", server.Text(countPassTables))
}

// If one transaction makes a whole pass, no table is left. For example, webhook events are committed in this way.
func TestCarriedOnce(t *testing.T) {
	server := pgtest.Shared(t)
	d := open(t, Options{URL: server.URL(), Schema: "s"})
	l := newSlowList(0)
	l.must(t, d, 1, true, 1, 2, 3)
	from, err := d.Cursor(t.Context(), l.key)
	require.NoError(t, err)
	x, err := d.Begin(t.Context(), l.key, from, load.Pass{Run: runID(2), Whole: true, Once: true})
	require.NoError(t, err)
	b := loadtest.Batch(t, l.table, l.rows(2, 1, 2)...)
	defer b.Release()
	require.NoError(t, x.Write(t.Context(), l.table, b))
	require.NoError(t, x.Commit(t.Context(), from+"x"))
	require.Equal(t, "0", server.Text(countPassTables))
}

// The connection is lost before or after the answer to a COMMIT. The carried keys of the pass are not lost.
func TestCarriedOverLostConnection(t *testing.T) {
	server := pgtest.Shared(t)
	p := newProxy(t, server.Address())
	d := open(t, Options{URL: server.Via(p.listener.Addr().String()), Schema: "s"})
	l := newSlowList(0)
	l.must(t, d, 1, true, 1, 2, 3, 4, 5, 6)
	p.lose(0, 1)
	l.must(t, d, 2, false, 1, 2)
	require.Equal(t, 1, p.count())
	p.lose(1, 0)
	l.must(t, d, 2, false, 3, 4)
	require.Equal(t, 1, p.count())
	p.lose(1, 1)
	require.Equal(t, load.Outcome{Unchanged: 1, Alive: 6, Missing: 1, Known: true, Deleted: 1}, l.must(t, d, 2, true, 5))
	require.Equal(t, 2, p.count())
}
