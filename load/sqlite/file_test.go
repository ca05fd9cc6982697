package sqlite

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// rig is a destination with one stream. Its records have an id and a value. Each test chooses the type of the values.
type rig struct {
	testing.TB
	*DB
	runs   int
	cursor state.Cursor
}

func newRig(t testing.TB) *rig {
	d, err := Open(Options{Path: filepath.Join(t.TempDir(), "x.db"), WaitLock: -1})
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return &rig{TB: t, DB: d}
}

// put commits records with the ids 1, 2, … and the given values of the column v.
func (r *rig) put(t arrow.DataType, values ...string) load.Outcome {
	r.Helper()
	out, err := r.attempt(t, values...)
	require.NoError(r, err)
	return out
}

func (r *rig) attempt(t arrow.DataType, values ...string) (load.Outcome, error) {
	r.runs++
	run := fmt.Sprintf("run%d", r.runs)
	columns := []arrow.Field{schemas.Field("id", schemas.Int64, "/id"), schemas.Field("v", t, "/v")}
	for _, name := range []string{schemas.ColRun, schemas.ColHash, schemas.ColVia} {
		columns = append(columns, schemas.Field(name, schemas.Text, ""))
	}
	for _, name := range []string{schemas.ColSyncedAt, schemas.ColDeletedAt} {
		columns = append(columns, schemas.Field(name, schemas.Timestamp, ""))
	}
	table := schemas.Table{Name: "people", Key: []string{"id"}, Columns: arrow.NewSchema(columns, nil)}
	rows := make([]loadtest.Row, len(values))
	for i, v := range values {
		rows[i] = loadtest.Row{
			"id": fmt.Sprint(i + 1), "v": v, schemas.ColHash: v, schemas.ColRun: run, schemas.ColVia: "poll",
			schemas.ColSyncedAt: "2026-11-20T08:00:00Z",
		}
	}
	b := loadtest.Batch(r, table, rows...)
	defer b.Release()
	x, err := r.Begin(r.Context(), state.Key{Pipeline: "p", Stream: "s"}, r.cursor, load.Pass{Run: run, Whole: true})
	require.NoError(r, err)
	defer func() { require.NoError(r, x.Rollback()) }()
	require.NoError(r, x.Write(r.Context(), table, b))
	out, err := x.Apply(r.Context(), load.Sweep{Table: "people", Delete: true})
	if err != nil {
		return out, err
	}
	next := state.Cursor(run)
	if err := x.Commit(r.Context(), next); err != nil {
		return out, err
	}
	r.cursor = next
	return out, nil
}

func (r *rig) query(q string) (rows []loadtest.Row) {
	r.Helper()
	require.NoError(r, r.Query(r.Context(), q, func(b arrow.RecordBatch) error {
		rows = append(rows, loadtest.RowsOf(b)...)
		return nil
	}), q)
	return rows
}

// byHand runs statements as another program would.
func (r *rig) byHand(statements ...string) {
	r.Helper()
	s, err := r.b.Write(r.Context())
	require.NoError(r, err)
	defer s.End()
	for _, q := range append(statements, "COMMIT") {
		require.NoError(r, s.Exec(r.Context(), q), q)
	}
}

// TestUserObjects widens a table to which users have added a column, an index, a trigger, a view and a broken view.
// All of them stay, and so do the values of the column.
func TestUserObjects(t *testing.T) {
	r := newRig(t)
	r.put(schemas.Int64, "1", "2")
	r.byHand(
		`ALTER TABLE people ADD COLUMN note TEXT NOT NULL DEFAULT 'none'`,
		`UPDATE people SET note = 'mine' WHERE id = 1`,
		`CREATE INDEX by_value ON people (v, note)`,
		`CREATE TABLE seen (id)`,
		`CREATE TRIGGER watch AFTER INSERT ON people BEGIN INSERT INTO seen VALUES (new.id); END`,
		`CREATE VIEW notes AS SELECT id, v, note FROM people`,
		`CREATE VIEW broken AS SELECT gone FROM people`,
	)
	out := r.put(&arrow.Decimal128Type{Precision: 16, Scale: 2}, "1.00", "2.00")
	require.EqualValues(t, 2, out.Written)
	out = r.put(schemas.Text, "1.00", "two", "three")
	require.EqualValues(t, 3, out.Written, "a cast from decimal to text is not exact")
	require.Equal(t, []loadtest.Row{
		{"id": "1", "v": "1.00", "note": "mine"}, {"id": "2", "v": "two", "note": "none"}, {"id": "3", "v": "three", "note": "none"},
	}, sorted(rowsOf(t, r.DB, "notes")))
	names := rowsOf(t, r.DB, "sqlite_schema")
	for _, name := range []string{"by_value", "watch", "broken", "people_current", "_penstock_find_people"} {
		require.True(t, has(names, name), name)
	}
	require.NotEmpty(t, rowsOf(t, r.DB, "seen"))
}

// TestGeneratedColumn checks that a generated column of a user causes an error, and is not lost.
func TestGeneratedColumn(t *testing.T) {
	r := newRig(t)
	r.put(schemas.Int64, "1")
	r.byHand(`ALTER TABLE people ADD COLUMN twice INTEGER AS (2 * v)`)
	require.EqualValues(t, 1, r.put(schemas.Int64, "2").Written)
	_, err := r.attempt(schemas.Text, "two")
	require.ErrorContains(t, err, `column "twice" is generated`)
	require.Equal(t, []loadtest.Row{{"twice": "4"}}, r.query("SELECT twice FROM people"))
}

func sorted(rows []loadtest.Row) []loadtest.Row {
	out := make([]loadtest.Row, len(rows))
	for _, r := range rows {
		var id int
		_, _ = fmt.Sscan(r["id"], &id)
		out[id-1] = r
	}
	return out
}

func has(rows []loadtest.Row, name string) bool {
	for _, r := range rows {
		if r["name"] == name {
			return true
		}
	}
	return false
}

// TestQueryOnlyReads checks that a query can neither write nor open another file.
func TestQueryOnlyReads(t *testing.T) {
	r := newRig(t)
	r.put(schemas.Text, "a; b", "c")
	other := filepath.Join(t.TempDir(), "other.db")
	query := func(q string) (rows []loadtest.Row, err error) {
		err = r.Query(t.Context(), q, func(b arrow.RecordBatch) error {
			rows = append(rows, loadtest.RowsOf(b)...)
			return nil
		})
		return rows, err
	}
	for _, q := range []string{
		"DELETE FROM people", "WITH x AS (SELECT 1) DELETE FROM people", "SELECT 1; DELETE FROM people", "SELECT 1; SELECT 2",
		"PRAGMA query_only = 0", "ATTACH '" + other + "' AS other", "VACUUM INTO '" + other + "'", "/* SELECT */ DELETE FROM people", "",
		"EXPLAIN SELECT 1; DELETE FROM people",
	} {
		_, err := query(q)
		require.ErrorIs(t, err, ErrNotReadOnly, q)
	}
	require.NoFileExists(t, other)
	for q, want := range map[string][]loadtest.Row{
		"SELECT v FROM people WHERE v = 'a; b';":                      {{"v": "a; b"}},
		"-- first; a comment\nSELECT count(*) AS n FROM people /*;*/": {{"n": "2"}},
		"WITH x AS (SELECT 1.5 AS a) SELECT a, NULL AS b FROM x":      {{"a": "1.5"}},
		`VALUES ('";')`: {{"column1": `";`}},
	} {
		rows, err := query(q)
		require.NoError(t, err, q)
		require.Equal(t, want, rows, q)
	}
	require.Len(t, rowsOf(t, r.DB, "people"), 2)
}

// The size of a value is limited. Invariant 6
func TestQueryLimits(t *testing.T) {
	r := newRig(t)
	r.put(schemas.Text, "a")
	for _, q := range []string{"SELECT hex(zeroblob(40000000))", "SELECT zeroblob(40000000), zeroblob(40000000)"} {
		require.ErrorIs(t, r.Query(t.Context(), q, func(arrow.RecordBatch) error { return nil }), load.ErrTooLarge, q)
	}
	require.NoError(t, r.Query(t.Context(), "SELECT zeroblob(60000000)", func(arrow.RecordBatch) error { return nil }))
}

// TestFile checks that only the owner can read the file and its log, and that a commit waits for another writer.
func TestFile(t *testing.T) {
	r := newRig(t)
	require.NoFileExists(t, r.b.o.Path, "opening creates no file")
	r.put(schemas.Text, "a")
	for _, ending := range []string{"", "-wal", "-shm"} {
		info, err := os.Stat(r.b.o.Path + ending)
		require.NoError(t, err)
		require.EqualValues(t, defaultMode, info.Mode().Perm(), ending)
	}
	other, err := Open(Options{Path: r.b.o.Path})
	require.NoError(t, err)
	s, err := other.b.Write(t.Context())
	require.NoError(t, err)
	_, err = r.b.Write(t.Context())
	require.ErrorIs(t, err, state.ErrLocked)
	require.Len(t, rowsOf(t, r.DB, "people"), 1, "a writer does not stop readers")
	require.NoError(t, s.Rollback())
	s.End()
	require.NoError(t, other.Close())
	r.put(schemas.Text, "b")
	require.NoError(t, r.Close())
	require.NoFileExists(t, r.b.o.Path+"-wal", "the log is merged into the file")
}

// TestNotADatabase checks the errors for a file with other content, and for a folder that does not exist.
func TestNotADatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("not a database ", 1000)), 0o600))
	d, err := Open(Options{Path: path})
	require.NoError(t, err)
	_, err = d.Cursor(t.Context(), state.Key{Pipeline: "p", Stream: "s"})
	require.ErrorIs(t, err, load.ErrNotDatabase)
	_, err = d.b.Write(t.Context())
	require.ErrorIs(t, err, load.ErrNotDatabase)
	err = d.Query(t.Context(), "SELECT 1 FROM t", func(arrow.RecordBatch) error { return nil })
	require.ErrorIs(t, err, load.ErrNotDatabase)
	require.ErrorContains(t, err, path)
	require.NoError(t, d.Close())

	d, err = Open(Options{Path: filepath.Join(t.TempDir(), "nowhere", "w.sqlite")})
	require.NoError(t, err)
	_, err = d.b.Write(t.Context())
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, 1, strings.Count(err.Error(), "w.sqlite"), err)
	require.NoError(t, d.Close())
}
