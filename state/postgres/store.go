// Package postgres stores the state of many processes in one Postgres database. Its [Store] is a [state.Store] that
// daemons and workers on several hosts share. The store has a schema of its own, which [Store.Migrate] creates. It
// changes nothing else in the database. Credentials are encrypted before they leave the process. Start with [New].
//
// Only the database's clock decides which process has a lease, a unit or a slot. [Store.Now] returns the time of this
// clock, and slots, units, tokens and rows get their times from it. So the clocks of the hosts may be wrong, even by
// hours.
package postgres

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/penstock-data/penstock/state"
)

// Options configures a [Store].
type Options struct {
	URL string // postgres://…; a search_path in it names the schema
	// Keys has the age identities that encrypt secrets, one per line. The first one encrypts new secrets. If Keys is "",
	// secrets cannot be stored.
	Keys string
	Step func(name string) error // called at each step of a transaction, so that tests can interrupt it there; may be nil

	Jobs Jobs // delivers units to workers; may be nil
	// Connections is how many connections the store has at most, if the URL has no pool_max_conns. 0 means 10. If Listen
	// is set, a queue uses one of them for LISTEN, unless the connections go through a pooler.
	Connections int
	Listen      bool

	Life time.Duration // how long a lease lasts without a renewal; 0: 30 seconds
	Log  *slog.Logger  // gets a message when the database stops answering, and when it answers again; may be nil
}

// DefaultSchema is the schema that is used if the URL does not name one.
const DefaultSchema = "penstock"

// Errors of a database that is not ready for use.
var (
	// ErrUnmigrated is returned if the schema is missing, or if an older version of penstock created it.
	ErrUnmigrated = errors.New("the state database needs a migration")
	// ErrPooled is returned by [Store.Migrate] if the connection goes through a pooler. A migration needs a direct
	// connection to the server.
	ErrPooled = errors.New("the connection goes through a pooler, but a migration needs a direct connection to the database")
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

	connecting  sync.Mutex // locked while the first connection is made
	mu          sync.Mutex
	db          *database
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

// Close implements [state.Store].
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db != nil {
		s.db.Close()
		s.db, s.migrated = nil, false
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

func millis(d time.Duration) string { return fmt.Sprint(d.Milliseconds()) }

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
