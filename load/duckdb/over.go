//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"database/sql/driver"
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
	numbered, err := v.numbered(ctx, files, deletes)
	if err != nil {
		return v, err
	}
	for _, q := range overSQL(files, deletes, numbered, views, v.engine.temp) {
		if err := v.engine.write.Exec(ctx, q); err != nil {
			return v, err
		}
	}
	return v, nil
}

// overMemoryLimit is higher than the limit for commits, because queries here read whole tables.
const overMemoryLimit = "1GB"

// The views of files use two columns that they do not show. No user column has the prefix of fileColumn, but one may have
// the name numberColumn.
const (
	fileColumn   = load.Prefix + "file" // the path of the file that contains the row
	numberColumn = "file_row_number"    // the position of the row in its file
)

// numbered returns the names of the views with deleted rows whose files have a column of the name numberColumn. DuckDB
// cannot number the rows of such files by itself.
func (v *ParquetViews) numbered(ctx context.Context, files, deletes map[string][]string) (map[string]bool, error) {
	out := map[string]bool{}
	for name := range deletes {
		q := fmt.Sprintf("SELECT column_name FROM (DESCRIBE SELECT * FROM read_parquet([%s], union_by_name = true, hive_partitioning = false))", literals(files[name]))
		err := v.engine.write.Query(ctx, q, func(row []driver.Value) error {
			if column, _ := row[0].(string); strings.EqualFold(column, numberColumn) {
				out[name] = true
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func literals(paths []string) string {
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = literal(p)
	}
	return strings.Join(out, ", ")
}

// overSQL returns the statements that create the views and block access to all other files.
func overSQL(files, deletes map[string][]string, numbered map[string]bool, views map[string]string, temp string) []string {
	q := []string{
		"SET temp_directory = " + literal(temp),
		"SET max_temp_directory_size = " + literal(defaultTempLimit),
		"SET memory_limit = " + literal(overMemoryLimit),
		"SET autoinstall_known_extensions = false",
		"SET autoload_known_extensions = false",
		"SET allow_community_extensions = false",
		"SET TimeZone = 'UTC'",
	}
	var allowed []string
	for name, paths := range files {
		q = append(q, "CREATE VIEW "+sqlmerge.Ident(name)+" AS "+overFiles(paths, deletes[name], numbered[name]))
		allowed = slices.Concat(allowed, paths, deletes[name])
	}
	for name, query := range views {
		q = append(q, "CREATE VIEW "+sqlmerge.Ident(name)+" AS "+query)
	}
	slices.Sort(allowed)
	return append(q, "SET allowed_paths = ["+literals(allowed)+"]",
		"SET enable_external_access = false", "SET lock_configuration = true")
}

// overFiles returns a SELECT of the rows of files without the deleted rows. The parameter `numbered` says that the files
// have a column of the name numberColumn.
func overFiles(paths, deletes []string, numbered bool) string {
	hidden, first, number := []string{literal(fileColumn)}, "", numberColumn
	if slices.ContainsFunc(paths, func(p string) bool { return strings.Contains(p, "/"+schemas.ColSource+"=") }) {
		// Sources that share a table have one folder each. The folder's name identifies the source of the rows. The files
		// of an Iceberg table have a column with the source too.
		first = fmt.Sprintf("regexp_extract(%s, '/%s=([^/]+)/', 1) AS %[2]s, ", fileColumn, schemas.ColSource)
		hidden = append(hidden, literal(schemas.ColSource))
	}
	const options = ", hive_partitioning = false, filename = '" + fileColumn + "'"
	from := fmt.Sprintf("read_parquet([%s], union_by_name = true%s", literals(paths), options)
	switch {
	case numbered:
		// A scan of one file returns its rows in their order, unless the setting preserve_insertion_order is false.
		number = load.Prefix + "row"
		each := make([]string, len(paths))
		for i, p := range paths {
			each[i] = fmt.Sprintf("SELECT *, row_number() OVER () - 1 AS %s FROM read_parquet(%s%s)", number, literal(p), options)
		}
		from = "(" + strings.Join(each, " UNION ALL BY NAME ")
	case deletes != nil:
		from += ", file_row_number = true"
	}
	from += ") AS r"
	if deletes != nil { // the names of files are unique, so they identify a file at any place
		hidden = append(hidden, literal(number))
		from += fmt.Sprintf(" ANTI JOIN read_parquet([%s], hive_partitioning = false) AS d ON parse_filename(d.file_path) = parse_filename(r.%s) AND d.pos = r.%s",
			literals(deletes), fileColumn, number)
	}
	return fmt.Sprintf("SELECT %sCOLUMNS(lambda c: c NOT IN (%s)) FROM %s", first, strings.Join(hidden, ", "), from)
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
