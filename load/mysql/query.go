package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
)

// ErrNotReadOnly is returned by Query for a statement that may do more than read.
var ErrNotReadOnly = errors.New("only a single SELECT, WITH, VALUES, TABLE, SHOW, DESCRIBE or EXPLAIN is allowed, and it must not contain INTO or call a function with other effects")

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
	// forbidden matches calls of functions that read files, take locks, keep the server busy, or change something that a
	// read-only transaction does not protect.
	forbidden = regexp.MustCompile(`(?i)(?:^|[^\w$])(load_file|benchmark|sleep|get_lock|release_lock|release_all_locks|setval|` +
		`(?:master|source)_(?:pos|gtid)_wait|wait_(?:for_executed_gtid_set|until_sql_thread_after_gtids)|` +
		`sys_(?:exec|eval|set)|spider_\w+|keyring_\w+|audit_log_\w+|group_replication_\w+|asynchronous_connection_\w+|version_tokens_\w+|service_\w+_locks)\s*\(`)
)

// calls returns a statement without its texts and comments. Quoted names lose their quotation marks, because a quoted
// name can also be the name of a function.
func calls(query string) string {
	return noise.ReplaceAllStringFunc(query, func(part string) string {
		if part[0] == '`' {
			return strings.Trim(part, "`")
		}
		return " "
	})
}

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
	if call := forbidden.FindStringSubmatch(calls(query)); call != nil {
		return fmt.Errorf("%w: it calls %s", ErrNotReadOnly, strings.ToUpper(call[1]))
	}
	config := b.config.Clone()
	received := &meter{most: 2 * load.MostRow} // a row, and the rows of a batch before it
	config.DialFunc = received.dial
	pool, err := connect(config, map[string]string{"time_zone": "'+00:00'", "sql_mode": "'STRICT_ALL_TABLES'"}) // in this mode a backslash begins an escape, as the expression `noise` expects
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	conn, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := limitTime(ctx, conn); err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, "START TRANSACTION READ ONLY"); err != nil {
		return err
	}
	rows, err := conn.QueryContext(ctx, query) //nolint:rowserrcheck // sqlmerge.Results checks it
	if err == nil {
		err = sqlmerge.Results(rows, typeOf, func(batch arrow.RecordBatch) error {
			received.bytes.Store(0)
			return visit(batch)
		})
	}
	if received.exceeded.Load() {
		return load.ErrTooLarge
	}
	if number(err) == errReadOnly {
		return ErrNotReadOnly
	}
	return classify(err)
}

// timeoutMargin is the time between the end of a query's context and the end of its statement by the server. In this
// time, the driver closes the connection, with a clearer error.
const timeoutMargin = 2 * time.Second

// limitTime lets the server stop the statements of a session soon after ctx ends. The driver only closes the
// connection then, and the server does not notice that while a statement runs. // Invariant 15
func limitTime(ctx context.Context, conn *sql.Conn) error {
	at, ok := ctx.Deadline()
	if !ok {
		return nil
	}
	var version string
	if err := conn.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return err
	}
	left := time.Until(at) + timeoutMargin
	set := fmt.Sprintf("SET SESSION max_execution_time = %d", left.Milliseconds())
	if strings.Contains(version, "MariaDB") {
		set = fmt.Sprintf("SET SESSION max_statement_time = %.3f", left.Seconds())
	}
	_, err := conn.ExecContext(ctx, set)
	return err
}

// meter counts what a connection receives. If it receives more than the limit before the counter is set to 0 again, reading
// fails. The driver would otherwise keep a row of any size. // Invariant 6
type meter struct {
	most     int64
	bytes    atomic.Int64
	exceeded atomic.Bool
}

func (m *meter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return metered{c, m}, nil
}

// metered is a connection with a meter.
type metered struct {
	net.Conn
	*meter
}

// Read implements net.Conn.
func (c metered) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.bytes.Add(int64(n)) > c.most {
		c.exceeded.Store(true)
		return n, load.ErrTooLarge
	}
	return n, err
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
