package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
)

// session implements [sqlmerge.Session] and [sqlmerge.Reader].
type session struct {
	b       *backend
	conn    *sql.Conn
	touched map[string]bool // tables that this transaction has used, so that no other session can alter them
	temps   []string        // temporary tables that this transaction has created
	pending []load.Change   // changes to tables that this transaction will record; see announce
}

// Exec implements [sqlmerge.Session].
func (s *session) Exec(ctx context.Context, query string) error {
	_, err := s.Affect(ctx, query)
	return err
}

// Affect implements [sqlmerge.Session].
func (s *session) Affect(ctx context.Context, query string) (int64, error) {
	if rest, ok := strings.CutPrefix(query, "DROP TABLE "); ok { // sqlmerge drops only temporary tables
		query = "DROP TEMPORARY TABLE " + rest
	}
	r, err := s.conn.ExecContext(ctx, s.translate(query))
	if err != nil {
		return 0, classify(err)
	}
	return r.RowsAffected()
}

// DeleteSome implements [sqlmerge.Session].
func (s *session) DeleteSome(ctx context.Context, table, condition, _ string, limit int64) (int64, string, error) {
	n, err := s.Affect(ctx, fmt.Sprintf("DELETE FROM %s WHERE %s LIMIT %d", s.b.Place(table), condition, limit))
	return n, "", err
}

// translate translates a statement, and remembers the tables that it uses.
func (s *session) translate(query string) string {
	query, tables := translate(query)
	for _, t := range tables {
		s.touched[t] = true
	}
	return query
}

// CreateTemp implements [sqlmerge.Session]. The table gets an index on its key, or on its hash if it has no key.
func (s *session) CreateTemp(ctx context.Context, name, definition string) error {
	if err := s.Exec(ctx, "DROP TABLE IF EXISTS "+name); err != nil {
		return err
	}
	if !slices.Contains(s.temps, name) {
		s.temps = append(s.temps, name)
	}
	definition = s.translate(definition)
	if query, ok := strings.CutPrefix(definition, "AS "); ok {
		key, err := s.keyOf(ctx, query)
		if err != nil {
			return classify(err)
		}
		if key != nil {
			definition = "(KEY (" + strings.Join(key, ", ") + ")) " + definition
		}
	}
	_, err := s.conn.ExecContext(ctx, "CREATE TEMPORARY TABLE "+name+" "+definition)
	return classify(err)
}

// keyOf returns the columns that the index of a temporary table gets: the key columns in the result of the query that
// fills the table, or the hash if there are no key columns.
func (s *session) keyOf(ctx context.Context, query string) (key []string, err error) {
	rows, err := s.conn.QueryContext(ctx, "SELECT * FROM ("+query+") AS q LIMIT 0")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	columns, err := rows.ColumnTypes()
	if err != nil {
		return nil, err
	}
	for _, c := range columns {
		if n := c.Name(); len(key) < maxKeyColumns && (n[0] == 'k' && len(n) > 1 || n == "h" && len(key) == 0) {
			if strings.HasSuffix(c.DatabaseTypeName(), "TEXT") || strings.HasSuffix(c.DatabaseTypeName(), "BLOB") {
				n += prefix(len(columns))
			}
			key = append(key, n)
		}
	}
	return key, rows.Err()
}

// maxKeyColumns is the limit of an index's columns.
const maxKeyColumns = 16

// prefix returns the length of an index prefix in parentheses, as in name(191): how many characters of each text the
// index includes. The parameter is the number of columns in the index. InnoDB indexes at most 3,072 bytes.
func prefix(columns int) string {
	return fmt.Sprintf("(%d)", min(191, 3072/4/min(columns, maxKeyColumns)-4))
}

// Query implements [sqlmerge.Reader].
func (s *session) Query(ctx context.Context, query string, row func([]driver.Value) error) error {
	rows, err := s.conn.QueryContext(ctx, s.translate(query)) //nolint:rowserrcheck // sqlmerge.EachRow checks it
	if err != nil {
		return classify(err)
	}
	return classify(sqlmerge.EachRow(rows, func(v []driver.Value) error {
		for i := range v {
			if text, ok := v[i].([]byte); ok {
				v[i] = string(text)
			}
		}
		return row(v)
	}))
}

// Stream implements [sqlmerge.Reader].
func (s *session) Stream(ctx context.Context, query string, columns *arrow.Schema, visit func(arrow.RecordBatch) error) error {
	rows, err := s.conn.QueryContext(ctx, s.translate(query)) //nolint:rowserrcheck // sqlmerge.StreamRows checks it
	if err != nil {
		return classify(err)
	}
	return classify(sqlmerge.StreamRows(rows, columns, visit))
}

// Objects implements [sqlmerge.Reader]. Changes that other transactions have announced and not recorded are hidden.
func (s *session) Objects(ctx context.Context, names []string) (map[string]*sqlmerge.Object, error) {
	stored := make([]string, len(names))
	for i, n := range names {
		stored[i] = escape(n)
	}
	all, err := s.readObjects(ctx, sqlmerge.FamilySQL(s.b, "table_name", stored))
	if err != nil {
		return nil, err
	}
	delete(all, pendingTable)
	return all, s.hidePending(ctx, all)
}

// readObject reads the named table or view.
func (s *session) readObject(ctx context.Context, name string) (map[string]*sqlmerge.Object, error) {
	return s.readObjects(ctx, "table_name = "+s.b.Literal(escape(name)))
}

// width matches the display width that MariaDB adds to bigint, as in bigint(20). It does not affect the values.
var width = regexp.MustCompile(`^bigint\([0-9]+\)`)

// readObjects reads the tables and views for which the condition holds.
func (s *session) readObjects(ctx context.Context, condition string) (map[string]*sqlmerge.Object, error) {
	where := " WHERE table_schema = " + s.b.Literal(s.b.database) + " AND " + condition
	all, err := sqlmerge.ReadObjects(ctx, s, `SELECT table_name, column_name, column_type,
		is_nullable = 'NO' AND column_default IS NULL AND extra NOT LIKE '%auto_increment%' AND coalesce(generation_expression, '') = '',
		coalesce(generation_expression, '') <> '' FROM information_schema.columns`+where+" AND column_name <> '"+rowID+`'
		UNION ALL SELECT table_name, NULL, table_type, NULL, NULL FROM information_schema.tables`+where+" AND table_type <> 'BASE TABLE'", unescape)
	for _, o := range all {
		for column, sql := range o.Types {
			o.Types[column] = width.ReplaceAllString(sql, "bigint")
		}
	}
	return all, err
}

// Stage implements [sqlmerge.Session].
func (s *session) Stage(ctx context.Context, staged *load.Staged, columns *arrow.Schema, names []string, use func(from string) error) error {
	return sqlmerge.StageRows(ctx, s, s.b, sqlmerge.StagedColumns(staged, columns, names, stamp), s.charset(), use)
}

// Insert implements [sqlmerge.Session]. It sends only the chosen rows.
func (s *session) Insert(ctx context.Context, i sqlmerge.Insertion) error {
	rows, err := i.Rows(ctx, s, stamp)
	if err != nil {
		return err
	}
	return s.InsertRows(ctx, s.b.Place(i.Table.Name), rows)
}

// insertBytes is the length at which a statement with rows is sent. Longer statements are not faster.
const insertBytes = 1 << 20

// InsertRows implements [sqlmerge.RowSession]. It sends rows as statements with literal values. LOAD DATA LOCAL would
// turn errors into warnings.
func (s *session) InsertRows(ctx context.Context, table string, rows sqlmerge.StagedRows) error {
	head := s.translate("INSERT INTO " + table + " (" + sqlmerge.Idents(rows.Names) + ") VALUES ")
	limit := min(insertBytes, s.b.packet-1024)
	buf := []byte(head)
	send := func(end int) error {
		_, err := s.conn.ExecContext(ctx, string(buf[:end]))
		return classify(err)
	}
	err := rows.Each(ctx, func(values []any) error {
		start := len(buf)
		buf = append(appendRow(buf, values), ',')
		if len(buf) <= limit || start == len(head) {
			return nil
		}
		err := send(start - 1)
		buf = append(buf[:len(head)], buf[start:]...)
		return err
	})
	if err != nil || len(buf) == len(head) {
		return err
	}
	return send(len(buf) - 1)
}

// appendRow appends a row as it is written after VALUES.
func appendRow(b []byte, values []any) []byte {
	for i, v := range values {
		sep := byte(',')
		if i == 0 {
			sep = '('
		}
		b = append(b, sep)
		switch v := v.(type) {
		case nil:
			b = append(b, "NULL"...)
		case bool:
			b = strconv.AppendBool(b, v)
		case int64:
			b = strconv.AppendInt(b, v, 10)
		case float64:
			b = strconv.AppendFloat(b, v, 'e', -1, 64)
		case string:
			b = append(b, dialect{}.Literal(v)...)
		}
	}
	return append(b, ')')
}

// Commit implements [sqlmerge.Session].
func (s *session) Commit(ctx context.Context) error {
	if err := s.forgetPending(ctx); err != nil {
		return err
	}
	_, err := s.conn.ExecContext(ctx, "COMMIT")
	if err == nil || !lost(err) && ctx.Err() == nil {
		return classify(err)
	}
	if unsettled := s.b.settle(ctx); unsettled != nil {
		return fmt.Errorf("%w; it is unknown whether this commit succeeded: %w", err, unsettled)
	}
	return fmt.Errorf("%w: %w", sqlmerge.ErrUnanswered, err)
}

// Rollback implements [sqlmerge.Session]. It also drops the temporary tables that the transaction has created, because
// the server keeps them.
func (s *session) Rollback() error {
	if s.b.conn == nil {
		return nil
	}
	ctx := context.Background()
	_, err := s.conn.ExecContext(ctx, "ROLLBACK")
	if err == nil && len(s.temps) > 0 {
		_, err = s.conn.ExecContext(ctx, "DROP TEMPORARY TABLE IF EXISTS "+strings.Join(s.temps, ", "))
	}
	if err != nil {
		s.b.disconnect()
		if lost(err) {
			return nil // the server has rolled back
		}
	}
	return err
}

// End implements [sqlmerge.Session].
func (s *session) End() { s.b.end() }

// charset returns the options of a table that make its texts compare as bytes.
func (s *session) charset() string {
	return " CHARACTER SET utf8mb4 COLLATE " + s.b.collation
}
