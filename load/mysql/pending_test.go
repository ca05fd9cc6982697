//go:build unix

package mysql

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/mysql/mysqltest"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// TestLeftChanges stops a commit after each statement that creates or alters a table. The changes that the stopped
// commit leaves must be hidden. The next commit needs different changes of the same table, and must succeed.
// Invariants 1, 16
func TestLeftChanges(t *testing.T) {
	server := mysqltest.Start(t)
	money, date := &arrow.Decimal128Type{Precision: 21, Scale: 2}, schemas.Date
	for _, c := range []struct {
		name                   string
		before, tried, after   arrow.DataType
		old, attempt, now, was string // old, attempt and now are the values that the first, the stopped and the next commit write; was is how the value old is stored after the next commit
	}{
		{"a new table", nil, schemas.Int64, schemas.Text, "", "7", "x", ""},
		{"integer, decimal, text", schemas.Int64, money, schemas.Text, "7", "8.50", "x", "7"},
		{"integer, text, decimal", schemas.Int64, schemas.Text, money, "7", "x", "8.50", "7.00"},
		{"integer, text, JSON", schemas.Int64, schemas.Text, schemas.JSON, "7", "x", `{}`, "7"},
		{"boolean, text", schemas.Bool, schemas.Text, schemas.Text, "true", "x", "y", "true"},
		{"time, text, JSON", schemas.Timestamp, schemas.Text, schemas.JSON, "2026-11-20T08:00:00Z", "x", `[]`, `"2026-11-20T08:00:00Z"`},
		{"date, text", date, schemas.Text, schemas.Text, "2026-11-20", "x", "y", "2026-11-20"},
	} {
		for stop := 1; ; stop++ {
			url, steps, stopped := server.URL(t), 0, false
			r := openRig(t, url, nil)
			if c.before != nil {
				_, err := r.put(schemas.Int64, c.before, loadtest.Row{"id": "1", "v": c.old})
				require.NoError(t, err)
			}
			broken := openRig(t, url, func(name string) error {
				if name == "alter" || name == "stage" {
					if steps++; steps == stop {
						stopped = true
						return errors.New("broken on purpose")
					}
				}
				return nil
			})
			broken.cursor, broken.runs = r.cursor, r.runs
			_, err := broken.put(schemas.Int64, c.tried, loadtest.Row{"id": "2", "v": c.attempt})
			if !stopped {
				require.NoError(t, err)
				require.Greater(t, stop, 2)
				break
			}
			require.Error(t, err)
			require.NoError(t, broken.Close())
			what := fmt.Sprintf("%s, stopped %d", c.name, stop)
			if c.before != nil {
				require.Equal(t, []string{c.old}, r.scan(), what)
			}
			_, err = r.put(schemas.Int64, c.after, loadtest.Row{"id": "3", "v": c.now})
			require.NoError(t, err, what)
			want := []string{c.now}
			if c.before != nil {
				want = append(want, c.was)
			}
			require.ElementsMatch(t, want, r.scan(), what)
			require.NoError(t, r.b.Read(t.Context(), func(reader sqlmerge.Reader) error {
				return reader.Query(t.Context(), "SELECT * FROM "+r.b.Place(pendingTable), func(v []driver.Value) error {
					return fmt.Errorf("%s: %v is left", what, v)
				})
			}))
		}
	}
}

// TestLeftKeys stops a commit that widens the column of the key. The next commit has keys of the old type. Some of
// these keys are so close together that they would be equal as a DOUBLE. The commit must find the right row for each
// key. // Invariant 1
func TestLeftKeys(t *testing.T) {
	server := mysqltest.Start(t)
	money := &arrow.Decimal128Type{Precision: 21, Scale: 2}
	for _, c := range []struct {
		name          string
		before, tried arrow.DataType
		attempt       string
		old, now      string
	}{
		{"integer, text", schemas.Int64, schemas.Text, "x", "9007199254740993", "9007199254740992"},
		{"integer, decimal", schemas.Int64, money, "1.50", "9007199254740993", "9007199254740992"},
		{"decimal, text", money, schemas.Text, "x", "90071992547409.93", "90071992547409.92"},
	} {
		left := map[string]bool{} // types that the column has after a commit that was stopped
		for stop := 1; ; stop++ {
			url, steps, stopped := server.URL(t), 0, false
			r := openRig(t, url, nil)
			_, err := r.put(c.before, schemas.Text, loadtest.Row{"id": c.old, "v": "old"})
			require.NoError(t, err)
			broken := openRig(t, url, func(name string) error {
				if name == "alter" || name == "stage" || name == "commit" {
					if steps++; steps == stop {
						stopped = true
						return errors.New("broken on purpose")
					}
				}
				return nil
			})
			broken.cursor, broken.runs = r.cursor, r.runs
			_, err = broken.put(c.tried, schemas.Text, loadtest.Row{"id": c.attempt, "v": "x"})
			require.NoError(t, broken.Close())
			if !stopped {
				require.NoError(t, err)
				require.Len(t, left, 2, c.name)
				break
			}
			require.Error(t, err)
			what := fmt.Sprintf("%s, stopped %d", c.name, stop)
			var now string
			require.NoError(t, r.b.pool.QueryRowContext(t.Context(), "SELECT column_type FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = 'people' AND column_name = 'id'").Scan(&now))
			left[now] = true
			out, err := r.put(c.before, schemas.Text, loadtest.Row{"id": c.now, "v": "now"})
			require.NoError(t, err, what)
			require.EqualValues(t, 1, out.Written, what)
			require.ElementsMatch(t, []string{"old", "now"}, r.scan(), what)
			out, err = r.put(c.before, schemas.Text, loadtest.Row{"id": c.now, "v": "now"}, loadtest.Row{"id": c.old, "v": "old"})
			require.NoError(t, err, what)
			require.EqualValues(t, 1, out.Unchanged, what)
			require.ElementsMatch(t, []string{"old", "now"}, r.scan(), what)
		}
	}
}

// Close does not wait for ever for a transaction that does not end. // Invariant 15
func TestCloseDuringTransaction(t *testing.T) {
	r := openRig(t, mysqltest.Start(t).URL(t), nil)
	_, err := r.put(schemas.Int64, schemas.Text, loadtest.Row{"id": "1", "v": "a"})
	require.NoError(t, err)
	s, err := r.b.Write(t.Context())
	require.NoError(t, err)
	begun := time.Now()
	require.ErrorContains(t, r.Close(), "a transaction has not ended")
	require.Less(t, time.Since(begun), 4*closeWait)
	require.NoError(t, s.Rollback())
	s.End()
}

// scan returns the values of the table.
func (r *rig) scan() (values []string) {
	r.Helper()
	require.NoError(r, r.Scan(r.Context(), "people", nil, func(b arrow.RecordBatch) error {
		for _, row := range loadtest.RowsOf(b) {
			values = append(values, row["v"])
		}
		return nil
	}))
	return values
}

// In TestTableOfOthers, a stopped commit leaves an empty table, and another program inserts a row. The table must not
// be dropped.
// Invariant 16
func TestTableOfOthers(t *testing.T) {
	server := mysqltest.Start(t)
	url := server.URL(t)
	n := 0
	r := openRig(t, url, func(name string) error {
		if name == "stage" {
			n++
			return errors.New("broken on purpose")
		}
		return nil
	})
	_, err := r.put(schemas.Int64, schemas.Text, loadtest.Row{"id": "1", "v": "a"})
	require.Error(t, err)
	require.Equal(t, 1, n)
	_, err = r.b.pool.ExecContext(t.Context(), "INSERT INTO "+r.b.Place("people")+" (id) VALUES (5)")
	require.NoError(t, err)
	_, err = r.put(schemas.Int64, schemas.Text, loadtest.Row{"id": "1", "v": "a"})
	require.ErrorIs(t, err, load.ErrForeignChange)
}

// TestStalledChange stalls a process before each statement that changes a table. An earlier process has left an empty
// table. The server ends the session that writes, and another process commits as soon as it can. Then the stalled
// process continues. It must not change what was committed. // Invariants 1, 13
func TestStalledChange(t *testing.T) {
	server := mysqltest.Start(t)
	for stop := 1; ; stop++ {
		url := server.URL(t)
		broken := openRig(t, url, func(name string) error {
			if name == "stage" {
				return errors.New("broken on purpose")
			}
			return nil
		})
		_, err := broken.put(schemas.Int64, schemas.Text, loadtest.Row{"id": "9", "v": "z"})
		require.Error(t, err)
		require.NoError(t, broken.Close())

		d, err := Open(Options{URL: url, WaitLock: -1})
		require.NoError(t, err)
		other := &rig{TB: t, DB: d}
		steps, stalled, committed := 0, false, false
		var slow *rig
		slow = openRig(t, url, func(name string) error {
			if name != "alter" {
				return nil
			}
			if steps++; steps == stop {
				stalled = true
				server.Exec(fmt.Sprintf("KILL %d", slow.b.id))
				_, err := other.put(schemas.Int64, schemas.Text, loadtest.Row{"id": "1", "v": "a"})
				committed = err == nil
			}
			return nil
		})
		_, err = slow.put(schemas.Int64, schemas.Text, loadtest.Row{"id": "2", "v": "b"})
		if !stalled {
			require.NoError(t, err)
			require.Greater(t, stop, 4)
			require.NoError(t, d.Close())
			return
		}
		require.Error(t, err, "stalled %d", stop)
		for begun := time.Now(); !committed; { // the server may need a moment to release the locks of the session that it ended
			_, err = other.put(schemas.Int64, schemas.Text, loadtest.Row{"id": "1", "v": "a"})
			if committed = err == nil; time.Since(begun) > time.Minute {
				require.NoError(t, err, "stalled %d", stop)
			}
		}
		require.Equal(t, []string{"a"}, other.scan(), "stalled %d", stop)
		require.NoError(t, d.Close())
	}
}

// TestLostAnswer ends the session immediately before the COMMIT. The commit must report that its answer is lost, and
// the next commit must succeed.
// Invariants 1, 2
func TestLostAnswer(t *testing.T) {
	server := mysqltest.Start(t)
	r := newRig(t, server)
	_, err := r.put(schemas.Int64, schemas.Text, loadtest.Row{"id": "1", "v": "a"})
	require.NoError(t, err)
	s, err := r.b.Write(t.Context())
	require.NoError(t, err)
	_, err = r.b.pool.ExecContext(t.Context(), fmt.Sprintf("KILL %d", r.b.id))
	require.NoError(t, err)
	require.ErrorIs(t, s.Commit(t.Context()), sqlmerge.ErrUnanswered)
	require.NoError(t, s.Rollback())
	s.End()
	_, err = r.put(schemas.Int64, schemas.Text, loadtest.Row{"id": "1", "v": "b"})
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, r.scan())
}

func TestLocked(t *testing.T) {
	server := mysqltest.Start(t)
	url := server.URL(t)
	first, err := Open(Options{URL: url})
	require.NoError(t, err)
	defer first.Close()
	second, err := Open(Options{URL: url, WaitLock: -1})
	require.NoError(t, err)
	defer second.Close()
	s, err := first.b.Write(t.Context())
	require.NoError(t, err)
	_, err = second.b.Write(t.Context())
	require.ErrorIs(t, err, state.ErrLocked)
	require.NoError(t, s.Rollback())
	s.End()
	s, err = second.b.Write(t.Context())
	require.NoError(t, err)
	require.NoError(t, s.Rollback())
	s.End()
}

// TestCheck revokes the rights one by one.
func TestCheck(t *testing.T) {
	server := mysqltest.Start(t)
	at := server.URL(t)
	d, err := Open(Options{URL: at})
	require.NoError(t, err)
	defer d.Close()
	require.NoError(t, d.Check(t.Context()))
	server.Exec("CREATE USER limited@localhost")
	check := func() error {
		limited, err := Open(Options{URL: strings.Replace(at, "root@", "limited@", 1)})
		require.NoError(t, err)
		defer limited.Close()
		return limited.Check(t.Context())
	}
	_, lacking := errors.AsType[Problems](check())
	require.True(t, lacking)
	place := d.b.database + ".*"
	for _, right := range []string{"SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "INDEX", "DROP", "CREATE TEMPORARY TABLES", "CREATE VIEW"} {
		server.Exec("GRANT ALL ON " + place + " TO limited@localhost; REVOKE " + right + " ON " + place + " FROM limited@localhost")
		require.ErrorContains(t, check(), "the user lacks the right "+right+": GRANT "+right+" ON")
		server.Exec("DROP VIEW IF EXISTS " + d.b.database + "._penstock_check_view; DROP TABLE IF EXISTS " + d.b.database + "._penstock_check")
	}
	server.Exec("GRANT ALL ON " + place + " TO limited@localhost")
	require.NoError(t, check())
}

// TestQuery reads a table in the server's own dialect.
func TestQuery(t *testing.T) {
	r := newRig(t, mysqltest.Start(t))
	_, err := r.put(schemas.Int64, schemas.Text, loadtest.Row{"id": "1", "v": "it's"})
	require.NoError(t, err)
	var rows []loadtest.Row
	read := func(b arrow.RecordBatch) error { rows = append(rows, loadtest.RowsOf(b)...); return nil }
	require.NoError(t, r.Query(t.Context(), "SELECT id, v, \"text\" AS t, 1.50 AS d, _penstock_synced_at AS at, date('2026-11-20') AS day FROM people", read))
	rows[0]["at"] = ""
	require.Equal(t, []loadtest.Row{{"id": "1", "v": "it's", "t": "text", "d": "1.50", "at": "", "day": "2026-11-20"}}, rows)
	require.NoError(t, r.Query(t.Context(), "SELECT * FROM people WHERE id = 7", func(b arrow.RecordBatch) error { require.Zero(t, b.NumRows()); return nil }))
}

// The server stops a question soon after its time has ended, and the size of a row is limited. Invariants 6, 15
func TestQueryLimits(t *testing.T) {
	server := mysqltest.Start(t)
	r := newRig(t, server)
	_, err := r.put(schemas.Int64, schemas.Text, loadtest.Row{"id": "1", "v": "sleep(1)"})
	require.NoError(t, err)
	require.NoError(t, r.Query(t.Context(), "SELECT 'sleep(1)', v AS `benchmark` FROM people WHERE v = \"sleep(1)\"", func(arrow.RecordBatch) error { return nil }))
	const long = "SELECT count(*) FROM information_schema.collations a, information_schema.collations b, information_schema.collations c, information_schema.collations d, information_schema.collations e"
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.ErrorIs(t, r.Query(ctx, long, func(arrow.RecordBatch) error { return nil }), context.DeadlineExceeded)
	require.Eventually(t, func() bool {
		var running int
		require.NoError(t, r.b.pool.QueryRowContext(t.Context(), "SELECT count(*) FROM information_schema.processlist WHERE info LIKE 'SELECT count(*) FROM information_schema.collations%'").Scan(&running))
		return running == 0
	}, 30*time.Second, 50*time.Millisecond)

	wide := "SELECT repeat('x', 15000000)" + strings.Repeat(", repeat('x', 15000000)", 9)
	require.ErrorIs(t, r.Query(t.Context(), wide, func(arrow.RecordBatch) error { return nil }), load.ErrTooLarge)
	rows := int64(0)
	require.NoError(t, r.Query(t.Context(), "SELECT repeat('x', 10000000) FROM information_schema.collations LIMIT 20", func(b arrow.RecordBatch) error { rows += b.NumRows(); return nil }))
	require.EqualValues(t, 20, rows)
}
