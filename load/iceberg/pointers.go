//go:build iceberg

package iceberg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"modernc.org/sqlite"
)

// pointers reads and changes the rows of one namespace in the catalog's database, which has the layout of Iceberg's
// JDBC catalog. Each row is a pointer: the location of a table's metadata.
type pointers struct {
	db        *sql.DB
	dollars   bool // placeholders are $1, not ?
	catalog   string
	namespace string
}

// swap is the change of a table's pointer from one location to another. It takes place only if the pointer still has
// the value of the field from.
type swap struct {
	table    string
	from, to string // "" as from: the table does not exist yet; "" as to: the table is dropped
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

func openPointers(ctx context.Context, o Options) (*pointers, error) {
	p := &pointers{catalog: o.Name, namespace: o.Namespace}
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
	if err := p.prepare(ctx); err != nil {
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

func (p *pointers) prepare(ctx context.Context) error {
	var there int
	err := p.db.QueryRowContext(ctx, p.placeholders("SELECT count(*) FROM iceberg_namespace_properties WHERE catalog_name = ? AND namespace = ?"), p.catalog, p.namespace).Scan(&there)
	if err == nil && there > 0 {
		return nil
	}
	for _, q := range layout {
		if _, err := p.db.ExecContext(ctx, q); err != nil {
			return err
		}
	}
	_, err = p.db.ExecContext(ctx, p.placeholders(`INSERT INTO iceberg_namespace_properties (catalog_name, namespace, property_key, property_value)
		VALUES (?, ?, 'exists', 'true') ON CONFLICT DO NOTHING`), p.catalog, p.namespace)
	return err
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

func (p *pointers) all(ctx context.Context) (map[string]string, error) {
	rows, err := p.db.QueryContext(ctx, p.placeholders("SELECT table_name, metadata_location FROM iceberg_tables"+whereNamespace+" AND metadata_location IS NOT NULL"), p.catalog, p.namespace)
	if err != nil {
		return nil, fmt.Errorf("read catalog: %w", err)
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var name, at string
		if err := rows.Scan(&name, &at); err != nil {
			return nil, fmt.Errorf("read catalog: %w", err)
		}
		out[name] = at
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read catalog: %w", err)
	}
	return out, nil
}

func (p *pointers) locate(ctx context.Context, table string) (at string, err error) {
	err = p.db.QueryRowContext(ctx, p.placeholders("SELECT metadata_location FROM iceberg_tables"+whereNamespace+" AND table_name = ?"), p.catalog, p.namespace, table).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read catalog: %w", err)
	}
	return at, nil
}

// swap changes all pointers in one transaction, or none. It returns errConflict if a pointer has changed.
// Invariants 1, 13
func (p *pointers) swap(ctx context.Context, swaps []swap) error {
	slices.SortFunc(swaps, func(a, b swap) int { return strings.Compare(a.table, b.table) }) // the same order in all transactions prevents deadlocks
	tx, err := p.db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	if p.dollars { // durable even if the database's default is not. Invariant 2
		if _, err := tx.ExecContext(ctx, "SET LOCAL synchronous_commit = on"); err != nil {
			return fmt.Errorf("begin: %w", err)
		}
	}
	for _, s := range swaps {
		if err := p.one(ctx, tx, s); err != nil {
			return fmt.Errorf("table %s: %w", s.table, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

func (p *pointers) one(ctx context.Context, tx *sql.Tx, s swap) error {
	var result sql.Result
	var err error
	switch {
	case s.from == "":
		result, err = tx.ExecContext(ctx, p.placeholders(`INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location)
			VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`), p.catalog, p.namespace, s.table, s.to)
	case s.to == "":
		result, err = tx.ExecContext(ctx, p.placeholders("DELETE FROM iceberg_tables"+whereNamespace+" AND table_name = ? AND metadata_location = ?"),
			p.catalog, p.namespace, s.table, s.from)
	default:
		result, err = tx.ExecContext(ctx, p.placeholders("UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ?"+whereNamespace+
			" AND table_name = ? AND metadata_location = ?"), s.to, s.from, p.catalog, p.namespace, s.table, s.from)
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
