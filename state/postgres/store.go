// Package postgres keeps the state of many processes in one Postgres database: a
// [state.Store] that serves and workers on several hosts share. It has a schema of
// its own, which [Store.Migrate] makes; nothing else in the database is touched.
// What it keeps of credentials is encrypted before it leaves the process.
//
// The database's clock is the only one that decides who has a lease, a unit or a
// slot, and by [Store.Now] the one that slots, units, tokens and the rows of a pass go
// by: those of the processes may be hours off. Begin with [New].
package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstock-data/penstock/state"
)

// Options say where the database is.
type Options struct {
	URL  string                  // postgres://…; its search_path, if it has one, names the schema
	Keys string                  // age identities that tokens are encrypted with, one a line, the first for new ones; "" keeps none
	Step func(name string) error // told each step of a change, so that tests can break it there; may be nil

	// Enqueue is told, in the transaction that makes them so, of units that may be
	// claimed now or once NotBefore has come: what it writes stands or falls with
	// them. It may be nil.
	Enqueue func(ctx context.Context, tx pgx.Tx, schema string, units []state.Unit) error
	Life    time.Duration // of a lease without a sign of life; 0: 30 seconds
}

// DefaultSchema is where everything is unless the URL names another schema.
const DefaultSchema = "penstock"

// Errors of a database that cannot be used as it is.
var (
	// ErrUnmigrated is returned where the schema is not there, or was made by an
	// earlier version.
	ErrUnmigrated = errors.New("the state database is not of this version yet")
	// ErrNoKey is returned where a token was to be kept, or read, without a key.
	ErrNoKey = errors.New("the state database keeps tokens only encrypted, and there is no key")
)

// Store keeps state in a database. It connects when it is first used, and again
// after the connection was lost. It is safe for concurrent use.
type Store struct {
	o      Options
	me     string // this process, unlike any other
	schema string
	clock  clock

	mu   sync.Mutex
	pool *pgxpool.Pool
	good bool              // the schema is of this version
	own  map[string]*lease // of places in the vault, by name
}

var _ state.Store = (*Store)(nil)

// New returns the store of a database, without connecting.
func New(o Options) *Store {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return &Store{o: o, me: fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.Text()[:8]), clock: clock{base: time.Now()}, own: map[string]*lease{}}
}

// How long things may take.
const (
	dialTimeout      = 5 * time.Second
	statementTimeout = 15 * time.Second
	lockTimeout      = 10 * time.Second
	mostConnections  = 10
)

// config is how to connect.
func (s *Store) config() (*pgxpool.Config, error) {
	c, err := pgxpool.ParseConfig(s.o.URL)
	if err != nil {
		return nil, errors.New("the URL of the state database is not one that can be used") // the driver would quote it // Invariant 5
	}
	p := c.ConnConfig.RuntimeParams
	s.schema = strings.TrimSpace(strings.Split(p["search_path"], ",")[0])
	if s.schema == "" {
		s.schema = DefaultSchema
	}
	s.schema = strings.Trim(s.schema, `"`)
	p["search_path"] = pgx.Identifier{s.schema}.Sanitize()
	for name, value := range map[string]string{
		"application_name": "penstock", "TimeZone": "UTC", "synchronous_commit": "on", "client_min_messages": "warning", // Invariant 3
		"default_transaction_isolation": "read committed", // who waits for a row sees what the one before has made of it
		"statement_timeout":             millis(statementTimeout), "lock_timeout": millis(lockTimeout),
		"idle_in_transaction_session_timeout": millis(s.life()), // who has lost its leases keeps no row from others
	} {
		p[name] = value
	}
	if c.ConnConfig.ConnectTimeout == 0 {
		c.ConnConfig.ConnectTimeout = dialTimeout
	}
	if !strings.Contains(s.o.URL, "pool_max_conns") {
		c.MaxConns = mostConnections
	}
	c.MaxConnIdleTime = time.Minute
	return c, nil
}

func millis(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

// connections is the pool, made the first time.
func (s *Store) connections() (*pgxpool.Pool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pool != nil {
		return s.pool, nil
	}
	c, err := s.config()
	if err != nil {
		return nil, err
	}
	s.pool, err = pgxpool.NewWithConfig(context.Background(), c)
	return s.pool, err
}

// Close implements [state.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.pool != nil {
		s.pool.Close()
		s.pool, s.good = nil, false
	}
	return nil
}

// Notes implements [state.Store].
func (s *Store) Notes() state.Notes { return notes{s} }

// step names the point that a change has reached to those who asked for it.
func (s *Store) step(name string) error {
	if s.o.Step == nil {
		return nil
	}
	return s.o.Step(name)
}

// at is t as a value of a column; the zero time is null.
func at(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// of is the time of a column.
func of(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// clean is s such that a text column can hold it.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// orAll is n as the value of a LIMIT; 0 is none.
func orAll(n int) int {
	if n == 0 {
		return math.MaxInt32
	}
	return n
}
