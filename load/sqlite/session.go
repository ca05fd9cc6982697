package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
)

// session implements [sqlmerge.Session] and [sqlmerge.Reader].
type session struct {
	b    *backend
	conn *sql.Conn

	known map[string]*sqlmerge.Object // the objects before this transaction changed tables; nil: not read yet
}

// Exec implements [sqlmerge.Session].
func (s *session) Exec(ctx context.Context, query string) error {
	_, err := s.Affect(ctx, query)
	return err
}

// Affect implements [sqlmerge.Session].
func (s *session) Affect(ctx context.Context, query string) (int64, error) {
	r, err := s.conn.ExecContext(ctx, query)
	if err != nil {
		return 0, classify(err)
	}
	return r.RowsAffected()
}

// DeleteSome implements [sqlmerge.Session].
func (s *session) DeleteSome(ctx context.Context, table, condition, _ string, limit int64) (int64, string, error) {
	return sqlmerge.DeleteByRowID(ctx, s, s.b.Place(table), condition, limit)
}

// Query implements [sqlmerge.Reader].
func (s *session) Query(ctx context.Context, query string, row func([]driver.Value) error) error {
	rows, err := s.conn.QueryContext(ctx, query) //nolint:rowserrcheck // sqlmerge.EachRow checks it
	if err != nil {
		return classify(err)
	}
	return classify(sqlmerge.EachRow(rows, row))
}

// Stream implements [sqlmerge.Reader].
func (s *session) Stream(ctx context.Context, query string, columns *arrow.Schema, visit func(arrow.RecordBatch) error) error {
	rows, err := s.conn.QueryContext(ctx, query) //nolint:rowserrcheck // sqlmerge.StreamRows checks it
	if err != nil {
		return classify(err)
	}
	return classify(sqlmerge.StreamRows(rows, columns, visit))
}

// Objects implements [sqlmerge.Reader]. It caches the committed objects until the version of the schema changes.
func (s *session) Objects(ctx context.Context, _ []string) (known map[string]*sqlmerge.Object, err error) {
	if s.known != nil {
		return s.known, nil
	}
	defer func() { s.known = known }()
	version := int64(0)
	err = s.Query(ctx, "PRAGMA main.schema_version", func(v []driver.Value) error {
		version, _ = v[0].(int64)
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.b.mu.Lock()
	known = s.b.known
	if s.b.version != version {
		known = nil
	}
	s.b.mu.Unlock()
	if known != nil {
		return known, nil
	}
	known, err = sqlmerge.ReadObjects(ctx, s, `SELECT m.name, c.name, c.type, c."notnull" AND c.dflt_value IS NULL, c.hidden > 0
		FROM main.sqlite_schema AS m, pragma_table_xinfo(m.name, 'main') AS c WHERE m.type = 'table'
		UNION ALL SELECT name, NULL, 'VIEW', NULL, NULL FROM main.sqlite_schema WHERE type = 'view'`, nil)
	if err != nil {
		return nil, err
	}
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.b.known, s.b.version = known, version
	return known, nil
}

// CreateTemp implements [sqlmerge.Session].
func (s *session) CreateTemp(ctx context.Context, name, definition string) error {
	if err := s.Exec(ctx, "DROP TABLE IF EXISTS "+s.b.Temp(name)); err != nil {
		return err
	}
	return s.Exec(ctx, "CREATE TEMP TABLE "+name+" "+definition)
}

// Stage implements [sqlmerge.Session].
func (s *session) Stage(ctx context.Context, staged *load.Staged, columns *arrow.Schema, names []string, use func(from string) error) error {
	return sqlmerge.StageRows(ctx, s, s.b, sqlmerge.StagedColumns(staged, columns, names, stamp), "", use)
}

// Insert implements [sqlmerge.Session]. It sends only the chosen rows to SQLite.
func (s *session) Insert(ctx context.Context, i sqlmerge.Insertion) error {
	rows, err := i.Rows(ctx, s, stamp)
	if err != nil {
		return err
	}
	return s.InsertRows(ctx, s.b.Place(i.Table.Name), rows)
}

// InsertRows implements [sqlmerge.RowSession].
func (s *session) InsertRows(ctx context.Context, table string, rows sqlmerge.StagedRows) error {
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(rows.Names)), ", ")
	stmt, err := s.conn.PrepareContext(ctx, "INSERT INTO "+table+" ("+sqlmerge.Idents(rows.Names)+") VALUES ("+marks+")") //nolint:sqlclosecheck // a deferred call closes it
	if err != nil {
		return err
	}
	defer stmt.Close()
	return rows.Each(ctx, func(values []any) error {
		// With a context that can end, the driver would start a goroutine for each row.
		_, err := stmt.ExecContext(context.WithoutCancel(ctx), values...)
		return classify(err)
	})
}

// Commit implements [sqlmerge.Session].
func (s *session) Commit(ctx context.Context) error { return s.Exec(ctx, "COMMIT") }

// Rollback implements [sqlmerge.Session]. After some errors, and after the end of a context, SQLite has already rolled
// back.
func (s *session) Rollback() error {
	err := s.Exec(context.Background(), "ROLLBACK")
	if err == nil || strings.Contains(err.Error(), "no transaction is active") {
		return nil
	}
	return errors.Join(err, s.b.disconnect())
}

// End implements [sqlmerge.Session].
func (s *session) End() { <-s.b.writer }
