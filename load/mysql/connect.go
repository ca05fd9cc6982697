package mysql

import (
	"cmp"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/penstock-data/penstock/state"
)

func (o Options) config() (*mysql.Config, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, errors.New("the url is invalid: want mysql://user:password@host/database") // err may hold a password
	}
	c := mysql.NewConfig()
	c.Logger = &mysql.NopLogger{}
	c.User = u.User.Username()
	c.Passwd, _ = u.User.Password()
	c.Net, c.Addr = "tcp", net.JoinHostPort(cmp.Or(u.Hostname(), "127.0.0.1"), cmp.Or(u.Port(), "3306"))
	if c.DBName = cmp.Or(o.Database, strings.Trim(u.Path, "/")); c.DBName == "" {
		return nil, errors.New("the url names no database: want mysql://user:password@host/database")
	}
	c.MaxAllowedPacket, c.TLSConfig = 0, "preferred" // 0: as on the server
	for name, values := range u.Query() {
		switch value := values[0]; name {
		case "socket":
			c.Net, c.Addr, c.TLSConfig = "unix", value, "false"
		case "tls":
			c.TLSConfig = value
		default:
			return nil, fmt.Errorf("unknown option %q: options are socket, tls and wait_lock", name)
		}
	}
	return c, nil
}

// settings returns the variables of each session that runs penstock's own statements.
func (b *backend) settings() map[string]string {
	wait := fmt.Sprint(max(1, int(b.o.WaitLock/time.Second)))
	return map[string]string{
		"sql_mode":                 "'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
		"time_zone":                "'+00:00'",
		"collation_connection":     "IF(VERSION() LIKE '%MariaDB%', 'utf8mb4_nopad_bin', 'utf8mb4_0900_bin')",
		"lock_wait_timeout":        wait,
		"innodb_lock_wait_timeout": wait,
		"wait_timeout":             "28800", // the session keeps its temporary tables while a slow source sends no rows
		"net_write_timeout":        "600",   // for slow readers of a scan
	}
}

func connect(c *mysql.Config, settings map[string]string) (*sql.DB, error) {
	c = c.Clone()
	c.Params = settings
	connector, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	pool := sql.OpenDB(connector)
	pool.SetConnMaxIdleTime(time.Minute)
	return pool, nil
}

func number(err error) uint16 {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return e.Number
	}
	return 0
}

// classify marks errors so that callers can recognize them.
func classify(err error) error {
	switch number(err) {
	case errDiskFull, errTableFull:
		return fmt.Errorf("the server's disk is full: %w: %w", syscall.ENOSPC, err)
	case errLockWait, errDeadlock:
		return fmt.Errorf("%w: %w", state.ErrLocked, err)
	case errRowTooLarge, errTooManyColumns:
		return fmt.Errorf("the table has too many columns for InnoDB; give the stream a lower max_columns: %w", err)
	}
	return err
}

// lost() reports whether the session has ended, so that the outcome of its last statement is unknown.
func lost(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, driver.ErrBadConn) || errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, sql.ErrConnDone)
}
