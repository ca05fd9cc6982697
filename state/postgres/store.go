// Package postgres stores the state of many processes in one Postgres database. Its [Store] is a [state.Store] that
// daemons and workers on several hosts share. The store has its own schema, which [Store.Migrate] creates. It touches
// nothing else in the database. Credentials are encrypted before they leave the process. Start with [New].
//
// Only the database's clock decides which process has a lease, a unit or a slot. The times of slots, units,
// tokens and rows are by this clock too, through [Store.Now]. So the clocks of the hosts may be wrong, even by hours.
package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/penstock-data/penstock/state"
)

// Options configures a [Store].
type Options struct {
	URL string // postgres://…; a search_path in it names the schema
	// Keys has the age identities that encrypt secrets, one per line. The first one encrypts new secrets. If Keys is "",
	// secrets cannot be stored.
	Keys string
	Step func(name string) error // called at each step of a transaction, so that tests can interrupt it there; may be nil

	Jobs Jobs          // delivers units to workers; may be nil
	Life time.Duration // how long a lease lasts without a renewal; 0: 30 seconds
	Log  *slog.Logger  // gets a message when the database stops answering, and when it answers again; may be nil
}

// DefaultSchema is the schema that is used if the URL does not name one.
const DefaultSchema = "penstock"

// Errors of a database that is not ready for use.
var (
	// ErrUnmigrated is returned if the schema is missing, or if an older version of penstock created it.
	ErrUnmigrated = errors.New("the state database needs a migration")
	// ErrNoKey is returned if a secret must be stored or read, and there is no key.
	ErrNoKey = errors.New("the state database stores tokens only encrypted, and there is no key")
)

// Store is a [state.Store] in a database. It connects on first use, and reconnects if a connection was lost. It is
// safe for concurrent use.
type Store struct {
	o      Options
	me     string
	schema string
	clock  clock
	outage outage

	mu          sync.Mutex
	pool        *pgxpool.Pool
	migrated    bool              // the schema has the version that this program needs
	entryLeases map[string]*lease // leases on entries of the vault, by name
}

var _ state.Store = (*Store)(nil)

// New returns the store of a database, without connecting.
func New(o Options) *Store {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return &Store{o: o, me: fmt.Sprintf("%s/%d/%s", host, os.Getpid(), rand.Text()[:8]), clock: clock{base: time.Now()}, entryLeases: map[string]*lease{}}
}

const (
	dialTimeout      = 5 * time.Second
	statementTimeout = 15 * time.Second
	lockTimeout      = 10 * time.Second
	mostConnections  = 10
)

func (s *Store) config() (*pgxpool.Config, error) {
	c, err := pgxpool.ParseConfig(s.o.URL)
	if err != nil {
		// The driver's error would quote the URL. // Invariant 5
		return nil, errors.New("cannot parse the URL of the state database")
	}
	p := c.ConnConfig.RuntimeParams
	s.schema = strings.TrimSpace(strings.Split(p["search_path"], ",")[0])
	if s.schema == "" {
		s.schema = DefaultSchema
	}
	s.schema = strings.Trim(s.schema, `"`)
	p["search_path"] = pgx.Identifier{s.schema}.Sanitize()
	for name, value := range map[string]string{
		"application_name": "penstock", "TimeZone": "UTC", "client_min_messages": "warning",
		"synchronous_commit": "on", // Invariant 3
		// A transaction that waited for a row must see the row's new version.
		"default_transaction_isolation": "read committed",
		"statement_timeout":             millis(statementTimeout), "lock_timeout": millis(lockTimeout),
		// A process that has lost its leases must not keep rows locked.
		"idle_in_transaction_session_timeout": millis(s.o.leaseLife()),
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
		s.pool, s.migrated = nil, false
	}
	return nil
}

// Notes implements [state.Store].
func (s *Store) Notes() state.Notes { return notes{s} }

func (s *Store) step(name string) error {
	if s.o.Step == nil {
		return nil
	}
	return s.o.Step(name)
}

func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\x00", "\ufffd")
}

// orAll returns n as the value of LIMIT. 0 means no limit.
func orAll(n int) int {
	if n == 0 {
		return math.MaxInt32
	}
	return n
}
