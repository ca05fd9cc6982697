package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
)

// ErrNotReadOnly is returned by Query for a statement that does more than read.
var ErrNotReadOnly = errors.New("only a single SELECT, WITH, VALUES or EXPLAIN is allowed; for anything else, use another SQLite program while no sync is running")

// readOnly matches the start of the statements that Query runs. Comments may be before the first word.
var readOnly = regexp.MustCompile(`(?is)^(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*(?:SELECT|WITH|VALUES|EXPLAIN)\b`)

// noise matches the parts of a query in which a semicolon does not end a statement: texts, quoted names and comments.
var noise = regexp.MustCompile(`(?s)'(?:[^']|'')*'|"(?:[^"]|"")*"|` + "`[^`]*`" + `|\[[^\]]*\]|--[^\n]*|/\*.*?(?:\*/|$)`)

// Query implements [load.Querier]. The connection can only read the file, and cannot open another file.
func (d *DB) Query(ctx context.Context, query string, visit func(arrow.RecordBatch) error) error {
	err := classify(d.b.query(ctx, query, visit))
	switch {
	case errors.Is(err, load.ErrNotDatabase):
		return fmt.Errorf("query: open %s: %w", d.b.o.Path, err)
	case err != nil:
		return fmt.Errorf("query: %w", err)
	}
	return nil
}

func (b *backend) query(ctx context.Context, query string, visit func(arrow.RecordBatch) error) (err error) {
	if _, err := os.Stat(b.o.Path); err != nil {
		return err
	}
	statements := strings.TrimRight(noise.ReplaceAllString(query, " "), "; \t\r\n")
	if !readOnly.MatchString(query) || strings.Contains(statements, ";") {
		return ErrNotReadOnly
	}
	pool, err := connect(b.o.Path, readTimeout, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for limit, to := range map[int]int{sqlite3.SQLITE_LIMIT_ATTACHED: 0, sqlite3.SQLITE_LIMIT_LENGTH: load.MostRow} { // Invariant 6
		if _, err := sqlite.Limit(conn, limit, to); err != nil {
			return err
		}
	}
	rows, err := conn.QueryContext(ctx, query) //nolint:rowserrcheck // sqlmerge.Results checks it
	if err == nil {
		err = sqlmerge.Results(rows, func(c *sql.ColumnType) (arrow.DataType, bool) { return typeOf(c.DatabaseTypeName()) }, visit)
	}
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		switch e.Code() & 0xff {
		case sqlite3.SQLITE_READONLY:
			return ErrNotReadOnly
		case sqlite3.SQLITE_TOOBIG:
			return load.ErrTooLarge
		case sqlite3.SQLITE_ERROR: // the statement is wrong; the name and the number of the code say nothing more
			return errors.New(strings.TrimSuffix(strings.TrimPrefix(e.Error(), "SQL logic error: "), " (1)"))
		}
	}
	return err
}
