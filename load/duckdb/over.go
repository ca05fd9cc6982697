//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// ParquetViews is an in-memory engine that reads Parquet files of another destination. It is safe for concurrent use.
type ParquetViews struct {
	engine *engine
	checks bool // the results of earlier checks are among the files
}

var (
	_ load.Querier         = (*ParquetViews)(nil)
	_ load.TableRowChecker = (*ParquetViews)(nil)
)

// OpenParquet opens an engine that can read the given files only. The parameter `files` maps the name of a view to the
// paths of the files whose rows the view shows. The parameter `deletes` maps it to the paths of position delete files of
// Iceberg: the view does not show the rows in them. The parameter `views` maps the name of a view to its SELECT. The
// caller closes the engine.
func OpenParquet(ctx context.Context, files, deletes map[string][]string, views map[string]string) (v *ParquetViews, err error) {
	v = &ParquetViews{engine: &engine{}, checks: files[load.Checks.Name] != nil}
	defer func() {
		if err != nil {
			err = fmt.Errorf("open parquet files: %w", errors.Join(err, v.Close()))
		}
	}()
	if v.engine.temp, err = os.MkdirTemp("", "penstock-duckdb-"); err != nil {
		return v, err
	}
	if v.engine.connector, err = newConnector(); err != nil {
		return v, err
	}
	if v.engine.write, err = v.engine.connect(ctx); err != nil {
		return v, err
	}
	for _, q := range overSQL(files, deletes, views, v.engine.temp) {
		if err := v.engine.write.Exec(ctx, q); err != nil {
			return v, err
		}
	}
	return v, nil
}

// overMemoryLimit is higher than the limit for commits, because queries here read whole tables.
const overMemoryLimit = "1GB"

// fileColumn is a column with the path of the file that contains the row. A view finds the source of a row in this
// path. The view itself does not show the column.
const fileColumn = load.Prefix + "file"

// overSQL returns the statements that create the views and block access to all other files.
func overSQL(files, deletes map[string][]string, views map[string]string, temp string) []string {
	q := []string{
		"SET temp_directory = " + literal(temp),
		"SET memory_limit = " + literal(overMemoryLimit),
		"SET autoinstall_known_extensions = false",
		"SET autoload_known_extensions = false",
		"SET allow_community_extensions = false",
		"SET TimeZone = 'UTC'",
	}
	var allowed []string
	list := func(paths []string) string {
		out := make([]string, len(paths))
		for i, p := range paths {
			out[i] = literal(p)
		}
		allowed = append(allowed, out...)
		return strings.Join(out, ", ")
	}
	for name, paths := range files {
		from, columns, more, join := list(paths), "*", "", ""
		if slices.ContainsFunc(paths, func(p string) bool { return strings.Contains(p, "/"+schemas.ColSource+"=") }) {
			// Sources that share a table have one folder each. The folder's name identifies the source of the rows.
			columns = fmt.Sprintf("regexp_extract(%s, '/%s=([^/]+)/', 1) AS %[2]s, * EXCLUDE (%[1]s)", fileColumn, schemas.ColSource)
			more = ", filename = '" + fileColumn + "'"
		}
		if deletes[name] != nil { // the names of files are unique, so they identify a file at any place
			columns = "* EXCLUDE (" + fileColumn + ", file_row_number)"
			more = ", filename = '" + fileColumn + "', file_row_number = true"
			join = fmt.Sprintf(" AS r ANTI JOIN read_parquet([%s], hive_partitioning = false) AS d ON parse_filename(d.file_path) = parse_filename(r.%s) AND d.pos = r.file_row_number",
				list(deletes[name]), fileColumn)
		}
		q = append(q, fmt.Sprintf("CREATE VIEW %s AS SELECT %s FROM read_parquet([%s], union_by_name = true, hive_partitioning = false%s)%s",
			sqlmerge.Ident(name), columns, from, more, join))
	}
	for name, query := range views {
		q = append(q, "CREATE VIEW "+sqlmerge.Ident(name)+" AS "+query)
	}
	slices.Sort(allowed)
	return append(q, "SET allowed_paths = ["+strings.Join(allowed, ", ")+"]",
		"SET enable_external_access = false", "SET lock_configuration = true")
}

// Query implements [load.Querier].
func (v *ParquetViews) Query(ctx context.Context, sql string, each func(arrow.RecordBatch) error) (err error) {
	s, err := v.engine.connect(ctx)
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	defer func() { err = errors.Join(err, s.conn.Close()) }()
	if sql, err = s.checkStatement(ctx, sql); err != nil {
		return fmt.Errorf("query: %w", err)
	}
	if err := s.stream(ctx, sql, each); err != nil {
		return fmt.Errorf("query: %w", err)
	}
	return nil
}

// CheckTable implements [load.TableRowChecker].
func (v *ParquetViews) CheckTable(ctx context.Context, k state.Key, t schemas.Table, c schemas.Check, now time.Time) (out load.CheckOutcome, err error) {
	s, err := v.engine.connect(ctx)
	if err != nil {
		return out, fmt.Errorf("check %s: %w", t.Name, err)
	}
	defer func() { err = errors.Join(err, s.conn.Close()) }()
	return sqlmerge.RunCheck(ctx, viewDialect{}, s, k, t, c, v.checks, now)
}

// viewDialect is the dialect of queries on the views.
type viewDialect struct{ dialect }

// Place implements [sqlmerge.Dialect].
func (viewDialect) Place(table string) string { return sqlmerge.Ident(table) }

// Close closes the engine.
func (v *ParquetViews) Close() error { return v.engine.close() }
