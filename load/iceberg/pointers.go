//go:build iceberg

package iceberg

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/iceberg-go/table"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"
)

// pointers is the [backend] for the rows of two namespaces in the catalog's database, which has the layout of Iceberg's
// JDBC catalog. Each row is a pointer: the location of a table's metadata.
type pointers struct {
	files      files
	db         *sql.DB
	dollars    bool // placeholders are $1, not ?
	catalog    string
	namespaces namespaces
}

var layout = []string{
	`CREATE TABLE IF NOT EXISTS iceberg_tables (
		catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,
		metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5),
		PRIMARY KEY (catalog_name, table_namespace, table_name))`,
	`CREATE TABLE IF NOT EXISTS iceberg_namespace_properties (
		catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL, property_key VARCHAR(255) NOT NULL,
		property_value VARCHAR(1000),
		PRIMARY KEY (catalog_name, namespace, property_key))`,
}

func openPointers(ctx context.Context, o Options, lake files) (*pointers, error) {
	p := &pointers{files: lake, catalog: o.Name, namespaces: o.namespaces()}
	var err error
	if path, ok := strings.CutPrefix(o.Catalog, "sqlite:"); ok {
		p.db, err = openSQLite(path)
	} else {
		p.dollars = true
		p.db, err = openPostgres(o.Catalog)
	}
	if err != nil {
		return nil, fmt.Errorf("open catalog: %w", err)
	}
	if err := p.createTables(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open catalog: %w", err), p.db.Close())
	}
	return p, nil
}

func openSQLite(path string) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	q := url.Values{"_txlock": {"immediate"}, "_pragma": {"busy_timeout(30000)", "synchronous(FULL)"}}
	c, err := sqlite.NewConnector("file://" + (&url.URL{Path: filepath.ToSlash(path)}).EscapedPath() + "?" + q.Encode())
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(c), nil
}

func openPostgres(at string) (*sql.DB, error) {
	c, err := pgx.ParseConfig(at)
	if err != nil {
		return nil, errors.New("want sqlite:PATH or postgres://…") // the cause may contain the password. Invariant 5
	}
	return stdlib.OpenDB(*c), nil
}

func (p *pointers) createTables(ctx context.Context) error {
	var there int
	err := p.db.QueryRowContext(ctx, p.placeholders("SELECT count(DISTINCT namespace) FROM iceberg_namespace_properties WHERE catalog_name = ? AND namespace IN (?, ?)"),
		p.catalog, p.namespaces.tables, p.namespaces.internal).Scan(&there)
	if err == nil && there == 2 {
		return nil
	}
	for _, q := range layout {
		if _, err := p.db.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	names, err := p.namesIn(ctx, p.namespaces.tables)
	if err == nil {
		err = p.namespaces.checkLayout(names)
	}
	if err != nil {
		return err
	}
	for _, name := range []string{p.namespaces.tables, p.namespaces.internal} {
		if _, err := p.db.ExecContext(ctx, p.placeholders(`INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)
			VALUES (?, ?, 'exists', 'true') ON CONFLICT DO NOTHING`), p.catalog, name); err != nil {
			return err
		}
	}
	return nil
}

func (p *pointers) placeholders(q string) string {
	if !p.dollars {
		return q
	}
	var b strings.Builder
	n := 0
	for _, c := range q {
		if c == '?' {
			n++
			b.WriteString("$" + strconv.Itoa(n))
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

const whereNamespace = " WHERE catalog_name = ? AND table_namespace = ?"

func (p *pointers) names(ctx context.Context) ([]string, error) {
	return p.namesIn(ctx, p.namespaces.internal)
}

func (p *pointers) namesIn(ctx context.Context, namespace string) ([]string, error) {
	all, err := p.query(ctx, "SELECT table_namespace, table_name, '' FROM iceberg_tables"+whereNamespace, p.catalog, namespace)
	return slices.Collect(maps.Keys(all)), err
}

// query runs a query that returns three columns: the namespace and the name of a table, and a text about it. It returns
// the texts by table.
func (p *pointers) query(ctx context.Context, q string, args ...any) (map[string]string, error) {
	rows, err := p.db.QueryContext(ctx, p.placeholders(q), args...)
	if err != nil {
		return nil, fmt.Errorf("read catalog: %w", err)
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var namespace, name, text string
		if err := rows.Scan(&namespace, &name, &text); err != nil {
			return nil, fmt.Errorf("read catalog: %w", err)
		}
		out[p.namespaces.table(namespace, name)] = text
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read catalog: %w", err)
	}
	return out, nil
}

// locate reads the locations of several tables with one query, so that all of them belong to the same moment.
func (p *pointers) locate(ctx context.Context, names ...string) (map[string]string, error) {
	if len(names) == 0 {
		return nil, nil
	}
	args := []any{p.catalog}
	for _, name := range names {
		namespace, name := p.namespaces.identifier(name)
		args = append(args, namespace, name)
	}
	return p.query(ctx, "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables WHERE catalog_name = ? AND metadata_location IS NOT NULL"+
		" AND (table_namespace, table_name) IN (VALUES (?, ?)"+strings.Repeat(", (?, ?)", len(names)-1)+")", args...)
}

func (p *pointers) metadata(ctx context.Context, _, at string) (table.Metadata, error) {
	return p.files.metadata(ctx, at)
}

// create does nothing, because a new table is one more row in the transaction of its first commit.
func (p *pointers) create(context.Context, string, []table.Update) (bool, error) { return false, nil }

func (p *pointers) prepare(ctx context.Context, c *change, file string) error {
	text, err := json.Marshal(c.meta)
	if err != nil {
		return err
	}
	c.to = p.files.Location(file)
	return p.files.Write(ctx, file, text)
}

func (p *pointers) atomic() bool { return true }

// Close closes the connections to the database.
func (p *pointers) Close() error { return p.db.Close() }

// commit changes all pointers in one transaction, or none. Each pointer must still have the value that it had when the
// commit began. Invariants 1, 13
func (p *pointers) commit(ctx context.Context, all []change) error {
	all = slices.SortedFunc(slices.Values(all), func(a, b change) int { return strings.Compare(a.table, b.table) }) // all transactions use the same order, to prevent deadlocks
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	if p.dollars { // make the commit durable, even if the database's default is not. Invariant 2
		if _, err := tx.ExecContext(ctx, "SET LOCAL synchronous_commit = on"); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
	}
	for _, s := range all {
		if err := p.one(ctx, tx, s); err != nil {
			return fmt.Errorf("table %s: %w", s.table, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func (p *pointers) one(ctx context.Context, tx *sql.Tx, s change) error {
	var result sql.Result
	var err error
	namespace, name := p.namespaces.identifier(s.table)
	switch {
	case s.from == "":
		result, err = tx.ExecContext(ctx, p.placeholders(`INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location)
			VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`), p.catalog, namespace, name, s.to)
	case s.to == "":
		result, err = tx.ExecContext(ctx, p.placeholders("DELETE FROM iceberg_tables"+whereNamespace+" AND table_name = ? AND metadata_location = ?"),
			p.catalog, namespace, name, s.from)
	default:
		result, err = tx.ExecContext(ctx, p.placeholders("UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ?"+whereNamespace+
			" AND table_name = ? AND metadata_location = ?"), s.to, s.from, p.catalog, namespace, name, s.from)
	}
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n != 1 {
		err = errConflict
	}
	return err
}
