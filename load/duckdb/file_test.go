//go:build cgo && duckdb_arrow

package duckdb

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

var stream = state.Key{Pipeline: "nightly", Stream: "crm.leads"}

var leads = schemas.Table{Name: "crm_leads", Key: []string{"id"}, Columns: arrow.NewSchema([]arrow.Field{
	schemas.Field("id", schemas.Int64, "/id"),
	schemas.Field("name", schemas.Text, "/name"),
	schemas.Field("price", &arrow.Decimal128Type{Precision: 16, Scale: 2}, "/price"),
	schemas.Field(schemas.ColSyncedAt, schemas.Timestamp, ""),
	schemas.Field(schemas.ColRun, schemas.Text, ""),
	schemas.Field(schemas.ColHash, schemas.Text, ""),
	schemas.Field(schemas.ColDeletedAt, schemas.Timestamp, ""),
	schemas.Field(schemas.ColVia, schemas.Text, ""),
	{Name: schemas.ColOrdinal, Type: schemas.Int64},
}, nil)}

// leadRows returns n rows of leads. Their names and hashes contain the given version.
func leadRows(run, version string, n int) []loadtest.Row {
	rows := make([]loadtest.Row, n)
	for i := range rows {
		rows[i] = loadtest.Row{
			"id": fmt.Sprint(i), "name": version, "price": "1.50", schemas.ColSyncedAt: "2026-11-20T08:00:00Z", schemas.ColRun: run,
			schemas.ColHash: version, schemas.ColVia: "poll", schemas.ColOrdinal: fmt.Sprint(i),
		}
	}
	return rows
}

func openTest(t testing.TB, path string, o Options) *DB {
	t.Helper()
	o.Path, o.TempDir = path, t.TempDir()
	d, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// put stores rows of leads in one commit.
func put(ctx context.Context, t testing.TB, d *DB, run string, from, next state.Cursor, rows []loadtest.Row) error {
	t.Helper()
	x, err := d.Begin(ctx, stream, from, load.Pass{Run: run, Whole: true})
	if err != nil {
		return err
	}
	defer func() { _ = x.Rollback() }()
	b := loadtest.Batch(t, leads, rows...)
	defer b.Release()
	if err := x.Write(ctx, leads, b); err != nil {
		return err
	}
	if _, err := x.Apply(ctx, load.Sweep{Table: leads.Name, Delete: true}); err != nil {
		return err
	}
	return x.Commit(ctx, next)
}

// holdElsewhere lets another process keep the file open until the test ends or release is called.
func holdElsewhere(t testing.TB, path, how string) (release func()) {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHolder$")
	child.Env = append(os.Environ(), "PENSTOCK_TEST_HOLD="+path, "PENSTOCK_TEST_HOW="+how)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	in, err := child.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "open\n", line)
	release = sync.OnceFunc(func() {
		_ = in.Close()
		_ = child.Wait()
	})
	t.Cleanup(release)
	return release
}

// TestHolder is the other process of holdElsewhere.
func TestHolder(t *testing.T) {
	path := os.Getenv("PENSTOCK_TEST_HOLD")
	if path == "" {
		t.Skip("runs only as the child process of the tests of a locked file")
	}
	x := plainDB(t, "")
	x("ATTACH " + literal(path) + " AS f " + os.Getenv("PENSTOCK_TEST_HOW"))
	fmt.Println("open")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

func TestLockedFile(t *testing.T) {
	for _, how := range []string{"", "(READ_ONLY)"} {
		t.Run("held"+how, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "locked.duckdb")
			d := openTest(t, path, Options{WaitLock: 100 * time.Millisecond})
			require.NoError(t, put(t.Context(), t, d, "run000000001", "", "a", leadRows("run000000001", "v1", 3)))
			d.detachIdle()
			release := holdElsewhere(t, path, how)
			err := put(t.Context(), t, d, "run000000002", "a", "b", leadRows("run000000002", "v2", 3))
			require.ErrorIs(t, err, state.ErrLocked)
			require.ErrorContains(t, err, path)
			require.Regexp(t, `duckdb\.test.* \(PID \d+\)`, err.Error())
			_, err = d.Cursor(t.Context(), stream)
			if how == "" {
				require.ErrorIs(t, err, state.ErrLocked)
			} else {
				require.NoError(t, err, "readers do not block readers")
			}
			release()
			require.NoError(t, put(t.Context(), t, d, "run000000002", "a", "b", leadRows("run000000002", "v2", 3)))
		})
	}
}

func TestWaitForLockedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "busy.duckdb")
	d := openTest(t, path, Options{WaitLock: time.Minute})
	require.NoError(t, put(t.Context(), t, d, "run000000001", "", "a", leadRows("run000000001", "v1", 3)))
	d.detachIdle()
	release := holdElsewhere(t, path, "")
	time.AfterFunc(200*time.Millisecond, release)
	require.NoError(t, put(t.Context(), t, d, "run000000002", "a", "b", leadRows("run000000002", "v2", 3)))

	d.detachIdle()
	holdElsewhere(t, path, "")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, put(ctx, t, d, "run000000003", "b", "c", nil), context.DeadlineExceeded)
}

func TestFileIsFreeBetweenCommits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shared.duckdb")
	d := openTest(t, path, Options{})
	require.NoError(t, put(t.Context(), t, d, "run000000001", "", "a", leadRows("run000000001", "v1", 3)))
	time.Sleep(3 * idleTime)
	holdElsewhere(t, path, "")
}

func TestOneProcessOneEngine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "twice.duckdb")
	a := openTest(t, path, Options{})
	b := openTest(t, path, Options{WaitLock: -1})
	require.NoError(t, put(t.Context(), t, a, "run000000001", "", "a", leadRows("run000000001", "v1", 3)))
	_, release, err := a.acquire(t.Context(), writing)
	require.NoError(t, err)
	_, err = b.Cursor(t.Context(), stream)
	require.ErrorIs(t, err, state.ErrLocked)
	release()
	a.detachIdle()
	c, err := b.Cursor(t.Context(), stream)
	require.NoError(t, err)
	require.EqualValues(t, "a", c)
}

func TestNotADatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("not a database ", 1000)), 0o600))
	d := openTest(t, path, Options{})
	_, err := d.Cursor(t.Context(), stream)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "not a valid DuckDB database file")
	require.ErrorIs(t, err, load.ErrNotDatabase)

	_, err = Open(t.Context(), Options{})
	require.ErrorContains(t, err, "no path")
	d = openTest(t, filepath.Join(t.TempDir(), "no", "such", "folder.duckdb"), Options{})
	err = put(t.Context(), t, d, "run000000001", "", "a", nil)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Equal(t, 1, strings.Count(err.Error(), "folder.duckdb"), err)
}

func TestUnchangedPassWritesLittle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "quiet.duckdb")
	d := openTest(t, path, Options{})
	require.NoError(t, put(t.Context(), t, d, "run000000001", "", "a", leadRows("run000000001", "v1", 5000)))
	require.NoError(t, d.Close())
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	d = openTest(t, path, Options{})
	for i := range 50 {
		run := fmt.Sprintf("run%09d", i+2)
		from, next := state.Cursor(fmt.Sprint("a", i)), state.Cursor(fmt.Sprint("a", i+1))
		if i == 0 {
			from = "a"
		}
		require.NoError(t, put(t.Context(), t, d, run, from, next, leadRows(run, "v1", 5000)))
	}
	require.NoError(t, d.Close())
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after, "the file does not change")
	log, err := os.Stat(path + ".wal")
	require.NoError(t, err)
	require.Less(t, log.Size(), int64(64<<10), "50 passes")
}

// TestBrokenEngine breaks an engine in the middle of a pass. The next engine continues, and reports that the carried
// keys are lost: the keys of the records that the pass has found unchanged. // Invariant 12
func TestBrokenEngine(t *testing.T) {
	d := openTest(t, filepath.Join(t.TempDir(), "broken.duckdb"), Options{})
	require.NoError(t, put(t.Context(), t, d, "run000000001", "", "a", leadRows("run000000001", "v1", 3)))
	step := func(from, next state.Cursor, rows []loadtest.Row, s load.Sweep) load.Outcome {
		x, err := d.Begin(t.Context(), stream, from, load.Pass{Run: "run000000002", Whole: true})
		require.NoError(t, err)
		b := loadtest.Batch(t, leads, rows...)
		defer b.Release()
		require.NoError(t, x.Write(t.Context(), leads, b))
		out, err := x.Apply(t.Context(), s)
		require.NoError(t, err)
		require.NoError(t, x.Commit(t.Context(), next))
		return out
	}
	rows := leadRows("run000000002", "v1", 3)
	step("a", "b", rows[:2], load.Sweep{})
	before := d.window.engine
	before.broken = true // as after an error that DuckDB calls fatal
	d.detachIdle()
	out := step("b", "c", rows[2:], load.Sweep{Table: leads.Name, Delete: true})
	require.NotSame(t, before, d.window.engine)
	require.False(t, out.Known)
	require.Zero(t, out.Deleted)
	require.Len(t, rowsOf(t, d, "crm_leads"), 3)
}

func TestForeignChanges(t *testing.T) {
	for _, c := range []struct{ name, change, want string }{
		{"dropped column", "ALTER TABLE crm_leads DROP COLUMN name", `column "name" is gone`},
		{"renamed column", "ALTER TABLE crm_leads RENAME name TO label", `column "name" is gone`},
		{"narrowed column", "ALTER TABLE crm_leads ALTER price TYPE INTEGER", `column "price" is INTEGER, was DECIMAL(16,2)`},
		{"required column", "ALTER TABLE crm_leads ADD COLUMN theirs INT; UPDATE crm_leads SET theirs = 1; ALTER TABLE crm_leads ALTER theirs SET NOT NULL", `column "theirs" requires a value in every row`},
		{"view", "ALTER TABLE crm_leads RENAME TO mine; CREATE VIEW crm_leads AS FROM mine", "a view has the name of the table"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "foreign.duckdb")
			d := openTest(t, path, Options{})
			require.NoError(t, put(t.Context(), t, d, "run000000001", "", "a", leadRows("run000000001", "v1", 3)))
			d.detachIdle()
			plainDB(t, path)(c.change)
			err := put(t.Context(), t, d, "run000000002", "a", "b", leadRows("run000000002", "v2", 3))
			require.ErrorIs(t, err, load.ErrForeignChange)
			require.ErrorContains(t, err, c.want)
			at, err := d.Cursor(t.Context(), stream)
			require.NoError(t, err)
			require.EqualValues(t, "a", at)
		})
	}
	t.Run("table of another program", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "foreign.duckdb")
		plainDB(t, path)("CREATE TABLE crm_leads (id BIGINT)")
		d := openTest(t, path, Options{})
		err := put(t.Context(), t, d, "run000000001", "", "a", leadRows("run000000001", "v1", 3))
		require.ErrorIs(t, err, load.ErrForeignChange)
		require.ErrorContains(t, err, "it was not made by penstock")
	})
	t.Run("column beside ours", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "foreign.duckdb")
		d := openTest(t, path, Options{})
		require.NoError(t, put(t.Context(), t, d, "run000000001", "", "a", leadRows("run000000001", "v1", 3)))
		d.detachIdle()
		plainDB(t, path)("ALTER TABLE crm_leads ADD COLUMN note TEXT; UPDATE crm_leads SET note = 'call ' || id")
		require.NoError(t, put(t.Context(), t, d, "run000000002", "a", "b", leadRows("run000000002", "v2", 4)))
		notes := map[string]string{}
		for _, r := range rowsOf(t, d, "crm_leads") {
			notes[r["id"]] = r["note"]
		}
		require.Equal(t, map[string]string{"0": "call 0", "1": "call 1", "2": "call 2", "3": ""}, notes, "values in users' columns stay with their rows")
	})
}

func TestLostTables(t *testing.T) {
	for _, name := range []string{"crm_leads", "_penstock_state", "_penstock_schema"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lost.duckdb")
			d := openTest(t, path, Options{})
			require.NoError(t, put(t.Context(), t, d, "run000000001", "", "a", leadRows("run000000001", "v1", 3)))
			d.detachIdle()
			plainDB(t, path)("DROP TABLE " + name)
			from, err := d.Cursor(t.Context(), stream)
			require.NoError(t, err)
			require.NoError(t, put(t.Context(), t, d, "run000000002", from, "b", leadRows("run000000002", "v1", 3)))
			require.Len(t, rowsOf(t, d, "crm_leads"), 3)
			tables, err := d.Tables(t.Context(), "crm_leads")
			require.NoError(t, err)
			require.Len(t, tables, 1)
			require.Equal(t, []string{"id"}, tables[0].Key)
			from, err = d.Cursor(t.Context(), stream)
			require.NoError(t, err)
			require.EqualValues(t, "b", from)
		})
	}
}

func TestQuery(t *testing.T) {
	path := filepath.Join(t.TempDir(), "asked.duckdb")
	d := openTest(t, path, Options{})
	nothing := func(arrow.RecordBatch) error { return nil }
	require.ErrorIs(t, d.Query(t.Context(), "SELECT 1", nothing), os.ErrNotExist)
	require.NoError(t, put(t.Context(), t, d, "run000000001", "", "a", leadRows("run000000001", "v1", 5000)))
	for _, sql := range []string{
		"SELECT count(*) FROM crm_leads", "WITH x AS (SELECT 1) FROM x", "FROM crm_leads LIMIT 1", "DESCRIBE crm_leads", "SHOW TABLES",
		"SUMMARIZE crm_leads", "EXPLAIN SELECT 1", "VALUES (1)", "SELECT 1;", "SHOW ALL TABLES",
	} {
		require.NoError(t, d.Query(t.Context(), sql, nothing), sql)
	}
	for _, sql := range []string{
		"", "SELEKT", "DELETE FROM crm_leads", "SELECT 1; SELECT 2", "DROP TABLE crm_leads", "INSERT INTO crm_leads (id) VALUES (1)",
		"COPY (SELECT 1) TO '" + path + "'", "ATTACH '/tmp/x.duckdb'", "DETACH db", "SET threads = 1", "PRAGMA disable_checkpoint_on_shutdown",
		"CHECKPOINT", "CREATE TABLE t (i INT)", "CREATE TEMP TABLE t (i INT)", "EXPLAIN ANALYZE DELETE FROM crm_leads", "INSTALL httpfs", "LOAD httpfs",
		"SELECT * FROM read_csv('/etc/passwd')", "FROM '/etc/passwd'", "CALL pragma_version()", "EXPORT DATABASE '/tmp'", "COMMIT", "UPDATE crm_leads SET id = 1",
		"SELECT * FROM read_text('" + path + "')", "PREPARE x AS DELETE FROM crm_leads", "SELECT getenv('HOME')", "SELECT * FROM glob('/*')",
	} {
		require.Error(t, d.Query(t.Context(), sql, nothing), sql)
	}
	require.Len(t, rowsOf(t, d, "crm_leads"), 5000)

	batches := 0
	require.NoError(t, d.Query(t.Context(), "SELECT id, price FROM crm_leads WHERE false", func(b arrow.RecordBatch) error {
		batches++
		require.Zero(t, b.NumRows())
		require.EqualValues(t, 2, b.NumCols())
		return nil
	}))
	require.Equal(t, 1, batches, "an empty result has columns, too")
	enough := fmt.Errorf("enough")
	require.ErrorIs(t, d.Query(t.Context(), "FROM crm_leads", func(arrow.RecordBatch) error { return enough }), enough)
	require.NoError(t, put(t.Context(), t, d, "run000000002", "a", "b", leadRows("run000000002", "v2", 3)))
}

// TestBatchesAreReleased checks that no memory of batches stays allocated after a commit, a rollback and a failed
// commit.
func TestBatchesAreReleased(t *testing.T) {
	mem := memory.NewCheckedAllocator(memory.NewGoAllocator())
	defer mem.AssertSize(t, 0)
	batch := func() arrow.RecordBatch {
		b := array.NewRecordBuilder(mem, leads.Columns)
		defer b.Release()
		for i, f := range leads.Columns.Fields() {
			if f.Name == "id" || f.Name == schemas.ColOrdinal {
				b.Field(i).(*array.Int64Builder).AppendValues([]int64{1, 2, 3}, nil)
				continue
			}
			b.Field(i).AppendNulls(3)
		}
		return b.NewRecordBatch()
	}
	fail := ""
	d := openTest(t, filepath.Join(t.TempDir(), "lean.duckdb"), Options{Step: func(name string) error {
		if name == fail {
			return fmt.Errorf("broken on purpose")
		}
		return nil
	}})
	for _, end := range []string{"rollback", "insert", "stage", "begin", "commit"} {
		fail = end
		x, err := d.Begin(t.Context(), stream, "", load.Pass{Run: "run000000001", Whole: true})
		require.NoError(t, err)
		for range 2 {
			b := batch()
			require.NoError(t, x.Write(t.Context(), leads, b))
			b.Release()
		}
		if end != "rollback" {
			err = x.Commit(t.Context(), "a")
			require.Equal(t, end == "commit", err == nil, end)
		}
		require.NoError(t, x.Rollback())
	}
}
