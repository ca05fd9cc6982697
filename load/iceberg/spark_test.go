//go:build iceberg && unix

package iceberg

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/parquet"
	"github.com/penstock-data/penstock/state"
)

// sparkServer reads one SQL statement per line. For each, it prints the rows or the error as JSON.
const sparkServer = `
import json, sys
from pyspark.sql import SparkSession
b = SparkSession.builder.master("local[1]")
for setting in sys.argv[1:]:
    b = b.config(*setting.split("=", 1))
s = b.getOrCreate()
s.sparkContext.setLogLevel("OFF")
for line in sys.stdin:
    try:
        out = {"rows": [[str(v) for v in r] for r in s.sql(line).collect()]}
    except Exception as e:
        out = {"error": " ".join(str(e).split("\n")[:3])}
    print("answer " + json.dumps(out), flush=True)
`

type spark struct {
	in  io.Writer
	out *bufio.Scanner
}

// startSpark starts Spark with the lake's catalog under the name penstock. It uses the servers of .ci/servers.
func startSpark(t *testing.T, settings ...string) *spark {
	t.Helper()
	dir := os.Getenv("PENSTOCK_TEST_SERVERS")
	python := filepath.Join(dir, "spark/bin/python")
	if _, err := os.Stat(python); dir == "" || err != nil {
		t.Skip("no Spark: run make catalogs")
	}
	cmd := exec.Command(python, append([]string{"-c", sparkServer,
		"spark.jars=" + filepath.Join(dir, "jars/iceberg-spark-runtime.jar") + "," + filepath.Join(dir, "jars/sqlite-jdbc.jar"),
		"spark.ui.enabled=false", "spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1", "spark.sql.shuffle.partitions=1",
		"spark.sql.extensions=org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
		"spark.sql.session.timeZone=UTC", "spark.sql.catalog.penstock.cache-enabled=false", "spark.sql.catalog.penstock=org.apache.iceberg.spark.SparkCatalog",
	}, settings...)...)
	cmd.Dir = t.TempDir()
	if testing.Verbose() {
		cmd.Stderr = os.Stderr
	}
	in, out := startPiped(t, cmd)
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	return &spark{in, lines}
}

// startPiped starts a program that reads questions from its input. The program ends when the test ends.
func startPiped(t *testing.T, cmd *exec.Cmd) (in io.WriteCloser, out io.Reader) {
	t.Helper()
	in, err := cmd.StdinPipe()
	require.NoError(t, err)
	out, err = cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	return in, out
}

func jdbc(o Options) []string {
	return []string{
		"spark.sql.catalog.penstock.catalog-impl=org.apache.iceberg.jdbc.JdbcCatalog",
		"spark.sql.catalog.penstock.uri=jdbc:sqlite:" + filepath.Join(o.Path, catalogFile),
		"spark.sql.catalog.penstock.warehouse=file://" + o.Path,
		"spark.sql.catalog.penstock.jdbc.schema-version=V0",
	}
}

func (s *spark) sql(t *testing.T, statement string, args ...any) [][]string {
	t.Helper()
	_, err := fmt.Fprintf(s.in, strings.ReplaceAll(statement, "\n", " ")+"\n", args...)
	require.NoError(t, err)
	for s.out.Scan() {
		text, ok := strings.CutPrefix(s.out.Text(), "answer ")
		if !ok {
			continue
		}
		var answer struct {
			Rows  [][]string
			Error string
		}
		require.NoError(t, json.Unmarshal([]byte(text), &answer))
		require.Empty(t, answer.Error, statement, args)
		return answer.Rows
	}
	t.Fatal("Spark has ended")
	return nil
}

func (s *spark) leads(t *testing.T) (out []string) {
	t.Helper()
	for _, r := range s.sql(t, "SELECT id, batch FROM penstock.penstock.leads ORDER BY id") {
		out = append(out, strings.Join(r, " of "))
	}
	return out
}

func batchOf(batch, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprint(i, " of ", batch))
	}
	return out
}

const sparkRewrite = "CALL penstock.system.rewrite_data_files(table => 'penstock.%s', options => map('rewrite-all', 'true'))"
const sparkExpire = "CALL penstock.system.expire_snapshots(table => 'penstock.%s', older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"

// Spark maintains all tables of a stream: it compacts files and manifests, expires snapshots, removes orphan files and
// tags a snapshot. The rows must stay the same, and penstock must be able to continue. Invariants 1, 16
func TestSparkMaintains(t *testing.T) {
	o := warehouse(t)
	o.Keep, o.KeepFor = 1, -1
	l := open(t, o)
	at := must(t, l, "", 1, 3)
	s := startSpark(t, jdbc(o)...)
	require.Equal(t, batchOf(1, 3), s.leads(t))
	s.sql(t, "ALTER TABLE penstock.penstock.leads CREATE TAG first")
	for n := 2; n < 5; n++ {
		at = must(t, l, at, n, n+2)
		for _, name := range []string{"penstock.leads", "penstock.leads__mails", "penstock_penstock.penstock_state__crm__leads"} {
			require.NotEqual(t, "0", s.sql(t, sparkRewrite, name)[0][0], name)
			s.sql(t, "CALL penstock.system.rewrite_manifests('penstock.%s')", name)
			if n != 3 {
				s.sql(t, sparkExpire, name)
			}
			aged(t, o.Path)
			s.sql(t, "CALL penstock.system.remove_orphan_files(table => 'penstock.%s', older_than => TIMESTAMP '2020-01-01 00:00:00')", name)
		}
		require.Equal(t, batchOf(n, n+2), s.leads(t))
		now, err := open(t, o).Cursor(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, at, now)
	}
	must(t, l, at, 6, 7)
	require.Equal(t, batchOf(6, 7), s.leads(t))
	require.Len(t, read(t, o, "leads"), 7)
	require.Len(t, s.sql(t, "SELECT id FROM penstock.penstock.leads VERSION AS OF 'first'"), 3)
}

// Spark changes rows and columns. The stream stops and reports the difference, and Accept undoes the
// change. Invariant 16
func TestSparkWrites(t *testing.T) {
	o := warehouse(t)
	l := open(t, o)
	at, n := must(t, l, "", 1, 3), 1
	s := startSpark(t, jdbc(o)...)
	for _, c := range []struct {
		statements []string
		diff       string
	}{
		{[]string{"DELETE FROM penstock.penstock.leads WHERE id = 0"}, `delete.*0 rows added|[123] rows deleted`},
		{[]string{"INSERT INTO penstock.penstock.leads SELECT * FROM penstock.penstock.leads WHERE id = 1", fmt.Sprintf(sparkRewrite, "penstock.leads")}, `\(append\): 1 rows added, 0 rows deleted`},
		{[]string{"UPDATE penstock.penstock.leads SET batch = 9 WHERE id = 1"}, `\(overwrite\)`},
		{[]string{"ALTER TABLE penstock.penstock.leads ADD COLUMN note string", "INSERT INTO penstock.penstock.leads SELECT * FROM penstock.penstock.leads WHERE id = 1"}, `column "note" was added|\(append\): 1 rows added`},
		{[]string{"ALTER TABLE penstock.penstock.leads DROP COLUMN batch"}, `column "batch" is gone`},
		{[]string{"DROP TABLE penstock.penstock.leads"}, `it is no longer in the catalog`},
	} {
		for _, q := range c.statements {
			s.sql(t, q)
		}
		_, err := put(t.Context(), l, at, n+1, 3)
		foreign := &load.ForeignChange{}
		require.ErrorAs(t, err, &foreign, c.statements)
		require.Regexp(t, c.diff, foreign.Error())
		accept(t, l)
		at = now(t, l)
		require.Len(t, read(t, o, "leads"), 3, c.statements)
		if n%2 == 1 { // in half of the rounds, Spark reads the rows after Accept and again after the next commit; in the other half, only after the next commit
			require.Equal(t, batchOf(n, 3), s.leads(t), c.statements)
		}
		n++
		at = must(t, l, at, n, 3)
		require.Equal(t, batchOf(n, 3), s.leads(t), c.statements)
	}
}

// aged() makes all files look old, because Spark does not remove new orphan files.
func aged(t *testing.T, dir string) {
	t.Helper()
	long := time.Date(2010, 1, 1, 0, 0, 0, 0, time.UTC)
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Chtimes(path, long, long))
	}))
}

func now(t *testing.T, l *parquet.Lake) state.Cursor {
	t.Helper()
	at, err := l.Cursor(t.Context(), key)
	require.NoError(t, err)
	return at
}

func accept(t *testing.T, l *parquet.Lake) {
	t.Helper()
	changes, err := l.Accept(t.Context(), "leads")
	require.NoError(t, err)
	require.NotEmpty(t, changes)
	again, err := l.Accept(t.Context(), "leads")
	require.NoError(t, err)
	require.Empty(t, again)
}
