package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
)

// ErrNotReadOnly is returned by Query for a statement that may do more than read.
var ErrNotReadOnly = errors.New("only a single SELECT, WITH, VALUES, TABLE, SHOW, DESCRIBE or EXPLAIN is allowed, and it must not contain INTO")

var (
	// readOnly matches the start of a statement that Query may run. Before that, all matches of the expression `noise`
	// are removed from the statement.
	readOnly = regexp.MustCompile(`(?i)^\s*(?:SELECT|WITH|VALUES|TABLE|SHOW|DESC|DESCRIBE|EXPLAIN)\b`)
	// into matches the keyword INTO, with which a SELECT can write files and variables.
	into = regexp.MustCompile(`(?i)\bINTO\b`)
	// noise matches string literals, quoted names and comments.
	noise = regexp.MustCompile(`(?s)'(?:[^'\\]|''|\\.)*'|"(?:[^"\\]|""|\\.)*"|` + "`[^`]*`" + `|--(?:[\s\x00-\x1f\x7f][^\n]*|$)|#[^\n]*|/\*.*?(?:\*/|$)`)
	// executable matches comments that the server runs.
	executable = regexp.MustCompile(`/\*M?!`)
)

// Query implements [load.Querier]. The statement is in MySQL's own dialect, and runs in a
// transaction that can only read.
func (d *DB) Query(ctx context.Context, query string, visit func(arrow.RecordBatch) error) error {
	if err := d.b.query(ctx, query, visit); err != nil {
		return fmt.Errorf("query: %w", err)
	}
	return nil
}

func (b *backend) query(ctx context.Context, query string, visit func(arrow.RecordBatch) error) (err error) {
	bare := strings.TrimRight(noise.ReplaceAllString(query, " "), "; \t\r\n")
	if !readOnly.MatchString(bare) || strings.Contains(bare, ";") || into.MatchString(bare) || executable.MatchString(query) {
		return ErrNotReadOnly
	}
	pool, err := connect(b.config, map[string]string{"time_zone": "'+00:00'", "sql_mode": "'STRICT_ALL_TABLES'"}) // in this mode a backslash begins an escape, as the expression `noise` expects
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if _, err := conn.ExecContext(ctx, "START TRANSACTION READ ONLY"); err != nil {
		return err
	}
	rows, err := conn.QueryContext(ctx, query) //nolint:rowserrcheck // sqlmerge.Results checks it
	if err == nil {
		err = sqlmerge.Results(rows, typeOf, visit)
	}
	if number(err) == errReadOnly {
		return ErrNotReadOnly
	}
	return classify(err)
}

// typeOf returns the type of a column of a result.
func typeOf(c *sql.ColumnType) (arrow.DataType, bool) {
	switch c.DatabaseTypeName() {
	case "TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "YEAR", "UNSIGNED TINYINT", "UNSIGNED SMALLINT", "UNSIGNED MEDIUMINT", "UNSIGNED INT":
		return schemas.Int64, true
	case "FLOAT", "DOUBLE":
		return schemas.Float64, true
	case "DATE":
		return schemas.Date, true
	case "DATETIME", "TIMESTAMP":
		return schemas.Timestamp, true
	case "DECIMAL":
		if p, s, ok := c.DecimalSize(); ok && p <= 38 {
			return &arrow.Decimal128Type{Precision: int32(p), Scale: int32(s)}, true
		}
		return schemas.Text, true
	case "BINARY", "VARBINARY", "TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB", "BIT", "GEOMETRY":
		return arrow.BinaryTypes.Binary, true
	}
	return schemas.Text, true
}
