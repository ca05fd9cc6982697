//go:build cgo && duckdb_arrow && unix && iceberg

package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	iceio "github.com/apache/iceberg-go/io"
	"github.com/apache/iceberg-go/table"
	"github.com/stretchr/testify/require"

	_ "modernc.org/sqlite"
)

// moreTargets returns the kinds of warehouses that exist only in builds with the tag iceberg.
func moreTargets() map[string]func(*testing.T) target {
	return map[string]func(*testing.T) target{
		"iceberg": func(t *testing.T) target { return icebergTarget{parquetTarget{t.TempDir()}} },
	}
}

// icebergTarget is a folder with the warehouse and its catalog. The folder is saved and restored like a folder of
// Parquet files.
type icebergTarget struct{ parquetTarget }

func (i icebergTarget) url() string { return "iceberg:" + i.root() }

// tables returns for each table the location of its metadata. It gets the locations with one query of the catalog.
func (i icebergTarget) tables(ctx context.Context) (map[string]string, error) {
	name := filepath.Join(i.root(), "catalog.db")
	if _, err := os.Stat(name); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+name+"?mode=ro&_pragma=busy_timeout(10000)")
	if err != nil {
		return nil, err
	}
	defer db.Close()
	rows, err := db.QueryContext(ctx, "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var namespace, table, at string
		if err := rows.Scan(&namespace, &table, &at); err != nil {
			return nil, err
		}
		if strings.HasSuffix(namespace, "_penstock") {
			table = "_" + table
		}
		out[table] = at
	}
	return out, rows.Err()
}

// files returns the files that iceberg-go would read for a table.
func (i icebergTarget) files(ctx context.Context, at string) ([]string, error) {
	t, err := table.NewFromLocation(ctx, nil, at, iceio.LoadFSFunc(nil, at), nil)
	if err != nil {
		return nil, err
	}
	tasks, err := t.Scan().PlanFiles(ctx)
	var out []string
	for _, task := range tasks {
		out = append(out, "'"+strings.TrimPrefix(task.File.FilePath(), "file://")+"'")
	}
	return out, err
}

// columns returns the columns of a table, with their types, in DuckDB's SQL.
func (i icebergTarget) columns(t *testing.T, at string) string {
	t.Helper()
	table, err := table.NewFromLocation(t.Context(), nil, at, iceio.LoadFSFunc(nil, at), nil)
	require.NoError(t, err)
	words := strings.NewReplacer("list<", "", ">", "[]", "long", "BIGINT", "string", "VARCHAR")
	var all []string
	for _, f := range table.Schema().Fields() {
		all = append(all, quote(f.Name)+" "+words.Replace(f.Type.String()))
	}
	return strings.Join(all, ", ")
}

// open() loads the files of each table in the catalog into a table of DuckDB.
func (i icebergTarget) open(t *testing.T) *warehouse {
	t.Helper()
	db := openMemory(t)
	all, err := i.tables(t.Context())
	require.NoError(t, err)
	from, columns := map[string][]string{}, map[string]string{} // by table
	for name, at := range all {
		files, err := i.files(t.Context(), at)
		require.NoError(t, err, name)
		columns[name] = i.columns(t, at)
		if strings.HasPrefix(name, "_penstock_") {
			name, _, _ = strings.Cut(name, "__")
		}
		from[name] = append(from[name], files...)
	}
	for name, files := range from {
		if files == nil {
			_, err := db.Exec(fmt.Sprintf("CREATE TABLE %s (%s)", quote(name), columns[name]))
			require.NoError(t, err, name)
			continue
		}
		_, err := db.Exec(fmt.Sprintf("CREATE TABLE %s AS SELECT * FROM %s", quote(name), parquetOf(files)))
		require.NoError(t, err, name)
	}
	return newWarehouse(t, db)
}

// parquetOf returns SQL that reads the files of a table. A file may lack columns that another file has.
func parquetOf(files []string) string {
	return "read_parquet([" + strings.Join(files, ", ") + "], union_by_name => true)"
}

// watch implements [target].
func (i icebergTarget) watch(t *testing.T) (look func(glancer) (int64, error), done func()) {
	return i.watchOf(t, "")
}

// watchOf queries the catalog once for each look, and reads the files that the metadata of the tables names. The SQL
// condition in the argument `where` selects rows of these files.
func (i icebergTarget) watchOf(t *testing.T, where string) (look func(glancer) (int64, error), done func()) {
	db := openMemory(t)
	return func(see glancer) (int64, error) {
		all, err := i.tables(context.Background())
		if err != nil {
			return 0, nil // the catalog does not exist yet
		}
		name := func(_, table string) string {
			files, err := i.files(context.Background(), all[table])
			if err != nil || files == nil {
				return ""
			}
			return "(SELECT * FROM " + parquetOf(files) + where + ")"
		}
		return see(name, func(q string, to ...any) error { return db.QueryRow(q).Scan(to...) })
	}, func() { _ = db.Close() }
}
