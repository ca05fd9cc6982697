//go:build cgo && duckdb_arrow

package main

import (
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// target is a kind of warehouse for tests of whole syncs. A test can save and restore the content of the warehouse,
// and can read the content without our code, as an analyst would.
type target interface {
	url() string                   // the URL for pipelines.yaml
	keep(t *testing.T)             // saves the current content
	reset(t *testing.T, kept bool) // restores the saved content, or empties the warehouse
	open(t *testing.T) *warehouse  // returns all content, as tables of DuckDB

	// watch returns functions for a reader that runs during the sync. look() calls a glancer once, and returns how many
	// rows the glancer saw, or 0 if there was nothing to read. done() ends the reader.
	watch(t *testing.T) (look func(glancer) (rows int64, err error), done func())
}

// onEach runs a test for each kind of warehouse.
func onEach(t *testing.T, f func(t *testing.T, to target)) {
	t.Helper()
	kinds := map[string]func(*testing.T) target{
		"duckdb":   func(t *testing.T) target { return duckTarget{t.TempDir()} },
		"sqlite":   func(t *testing.T) target { return sqliteTarget{t.TempDir()} },
		"parquet":  func(t *testing.T) target { return parquetTarget{t.TempDir()} },
		"postgres": func(t *testing.T) target { return newPostgresTarget(t) },
		"mysql":    func(t *testing.T) target { return newMySQLTarget(t) },
	}
	maps.Copy(kinds, moreTargets())
	for kind, make := range kinds {
		t.Run(kind, func(t *testing.T) { f(t, make(t)) })
	}
}

// family lists the tables that readers check during a sync. Some of them have a child table. At any time, each key
// occurs once, and a child row has the same version as its parent row. // Invariants 1, 7
var family = []struct{ root, child string }{
	{"sales_invoices", "sales_invoices__items"},
	{"v2_contacts", ""},
	{"crm_lead_board", ""},
}

// broken returns a statement that counts the rows of half-visible commits: rows with a repeated key, and child rows
// whose parent row has another version.
func broken(root, child string) string {
	keys := fmt.Sprintf("SELECT count(*) - count(DISTINCT id) FROM %s", root)
	if child == "" {
		return keys
	}
	return fmt.Sprintf(`SELECT (%s) + (SELECT count(*) FROM %s c WHERE NOT EXISTS (
		SELECT 1 FROM %s p WHERE p.id = c._penstock_parent AND p._penstock_hash = c._penstock_hash))`, keys, child, root)
}

// glancer reads tables with single statements, each in one snapshot, and returns the number of rows. It runs each query
// with ask(). The function name() gets a table and its root table. It returns the name of the table in queries, or ""
// if the table does not exist yet.
type glancer func(name func(root, table string) string, ask func(query string, to ...any) error) (rows int64, err error)

// glance is a glancer that reads each pair of tables in the list family once. If it sees half a commit, it returns an
// error. A table that cannot be read at the moment counts as empty.
func glance(name func(root, table string) string, ask func(query string, to ...any) error) (rows int64, err error) {
	for _, f := range family {
		root, child := name(f.root, f.root), ""
		if f.child != "" {
			child = name(f.root, f.child)
		}
		var half, n int64
		q := fmt.Sprintf("SELECT (%s), (SELECT count(*) FROM %s)", broken(root, child), root)
		if root == "" || ask(q, &half, &n) != nil {
			continue
		}
		if half != 0 {
			return rows, fmt.Errorf("%d rows of %s show that only half a commit is visible", half, f.root)
		}
		rows += n
	}
	return rows, nil
}

// asNamed is the function name() for a warehouse in which queries use the plain names of tables.
func asNamed(_, table string) string { return table }

type duckTarget struct{ dir string }

func (d duckTarget) path() string { return filepath.Join(d.dir, "warehouse.duckdb") }
func (d duckTarget) url() string  { return "duckdb:" + d.path() }

func (d duckTarget) keep(t *testing.T) { copyFile(t, d.path(), d.path()+".kept") }

func (d duckTarget) reset(t *testing.T, kept bool) {
	for _, ext := range []string{"", ".wal"} {
		if err := os.Remove(d.path() + ext); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if kept {
		copyFile(t, d.path()+".kept", d.path())
	}
}

func (d duckTarget) open(t *testing.T) *warehouse { return openWarehouse(t, d.path()) }

// watch implements [target]. It reads the file whenever no commit has locked the file.
func (d duckTarget) watch(*testing.T) (look func(glancer) (int64, error), done func()) {
	return func(see glancer) (int64, error) {
		db, err := sql.Open("duckdb", d.path()+"?access_mode=READ_ONLY")
		if err != nil {
			return 0, nil // the file is locked, or does not exist yet
		}
		defer db.Close()
		return see(asNamed, func(q string, to ...any) error { return db.QueryRow(q).Scan(to...) })
	}, func() {}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(to, b, 0o600))
}

type parquetTarget struct{ dir string }

func (p parquetTarget) root() string { return filepath.Join(p.dir, "lake") }
func (p parquetTarget) url() string  { return "parquet:" + p.root() }

func (p parquetTarget) keep(t *testing.T) {
	require.NoError(t, os.RemoveAll(p.root()+".kept"))
	copyTree(t, p.root(), p.root()+".kept")
}

func (p parquetTarget) reset(t *testing.T, kept bool) {
	require.NoError(t, os.RemoveAll(p.root()))
	if kept {
		copyTree(t, p.root()+".kept", p.root())
	}
}

// copyTree copies folders, files and symbolic links.
func copyTree(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		dest := to + strings.TrimPrefix(path, from)
		switch {
		case e.IsDir():
			return os.MkdirAll(dest, 0o700)
		case e.Type() == fs.ModeSymlink:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(link, dest)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(dest, b, 0o600)
	}))
}

// open() loads the files of each folder into a table of DuckDB, with read_parquet.
func (p parquetTarget) open(t *testing.T) *warehouse {
	t.Helper()
	db := openMemory(t)
	folders, err := filepath.Glob(filepath.Join(p.root(), "*", "current", "*"))
	require.NoError(t, err)
	from := map[string][]string{} // by table
	for _, f := range folders {
		if s, err := os.Stat(f); err == nil && s.IsDir() {
			from[filepath.Base(f)] = append(from[filepath.Base(f)], "'"+filepath.Join(f, "*.parquet")+"'")
		}
	}
	for table, globs := range from {
		_, err := db.Exec(fmt.Sprintf("CREATE TABLE %s AS SELECT * FROM read_parquet([%s])", quote(table), strings.Join(globs, ", ")))
		require.NoError(t, err, table)
	}
	return newWarehouse(t, db)
}

// watch implements [target]. It reads the files of the generation to which the link current points.
func (p parquetTarget) watch(t *testing.T) (look func(glancer) (int64, error), done func()) {
	db := openMemory(t)
	return func(see glancer) (int64, error) {
		current := map[string]string{} // generation by stream, because all tables of a stream must be read from the same generation
		name := func(root, table string) string {
			if current[root] == "" {
				real, err := filepath.EvalSymlinks(filepath.Join(p.root(), strings.Replace(root, "_", ".", 1), "current"))
				if err != nil {
					return ""
				}
				current[root] = real
			}
			return fmt.Sprintf("read_parquet('%s')", filepath.Join(current[root], table, "*.parquet"))
		}
		return see(name, func(q string, to ...any) error { return db.QueryRow(q).Scan(to...) })
	}, func() { _ = db.Close() }
}

// openMemory opens an empty DuckDB in memory, which a test uses to read other data.
func openMemory(t *testing.T) *sql.DB {
	t.Helper()
	db, err := sql.Open("duckdb", "")
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	_, err = db.Exec("SET TimeZone = 'UTC'")
	require.NoError(t, err)
	return db
}
