package postgres

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/semaphore"
)

// Servers shares connections between destinations. Destinations with the same [Options].Servers and the same URL use
// the same connections. A worker opens a destination for each source of a pipeline. Without sharing, each of them would
// keep connections of its own. The zero value is ready to use. It is safe for concurrent use.
type Servers struct {
	mu     sync.Mutex
	all    map[string]*server // by URL
	closed bool
}

// server has the connections to one database with one set of credentials.
//
// A transaction that writes sometimes needs a second connection. For example, it reads _penstock_rejects before it
// commits. If all connections belonged to such transactions, the transactions would wait for each other. So each
// transaction that writes must take a place before it takes a connection. There is one place less than there are
// connections. The order is:
//
//  1. A transaction takes its place before its connection, and gives the place back after the connection.
//  2. While it has a connection, it takes no other place. It may take a second connection, for one read.
//  3. A read takes one connection and no place. While it has the connection, it takes no second connection.
//
// So one connection is always free, or belongs to a read. This read needs no second connection, so it ends, and another
// read or transaction gets the connection. A pass that writes to several destinations of the server takes the places
// for all of them together: see [writerLimit]. Each wait for a place or a connection has a limit: see patiently.
type server struct {
	config  *pgxpool.Config
	conns   *pgxpool.Pool
	writes  writerLimit
	users   int         // open destinations
	closing *time.Timer // closes the connections a while after the last user has left; nil: no user has left yet
}

// linger is how long connections stay open after the last user has left. The next unit of a worker often uses the same
// server.
const linger = 5 * time.Second

// join returns the connections to the server of a URL. When the caller no longer needs them, it calls leave.
//
// A password or a certificate may come from a file, and change while the URL stays the same. Then the new user gets new
// connections, and earlier users continue with the old connections. The new user also gets new connections if it may
// have more of them than the earlier users.
func (s *Servers) join(o Options) (*server, error) {
	url := o.URL
	config, err := configure(url, o.Connections)
	if err != nil {
		return nil, err
	}
	config.MaxConns = max(config.MaxConns, int32(o.Together)+1) // one place for each destination, and a connection for reads
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.all[url]
	if at == nil || at.config.MaxConns < config.MaxConns || !sameLogin(at.config.ConnConfig, config.ConnConfig) {
		conns, err := pgxpool.NewWithConfig(context.Background(), config)
		if err != nil {
			return nil, err
		}
		at = &server{config: config, conns: conns, writes: writerLimit{free: semaphore.NewWeighted(int64(config.MaxConns) - 1), taken: map[passID]*passPlaces{}}}
		if s.all == nil {
			s.all = map[string]*server{}
		}
		s.all[url] = at
	}
	at.users++
	return at, nil
}

// leave ends the use of connections. If they have no other user, they are closed after a while.
func (s *Servers) leave(url string, at *server) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch at.users--; {
	case at.users > 0:
	case s.closed:
		s.close(url, at)
	case at.closing != nil:
		at.closing.Reset(linger)
	default:
		at.closing = time.AfterFunc(linger, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if at.users == 0 {
				s.close(url, at)
			}
		})
	}
}

// close closes connections that have no user. The caller holds s.mu.
func (s *Servers) close(url string, at *server) {
	if s.all[url] == at {
		delete(s.all, url)
	}
	if at.conns.Stat().AcquiredConns() > 0 {
		go at.conns.Close() // Close waits until all transactions have ended
		return
	}
	at.conns.Close()
}

// Close closes the connections that have no user. From then on, all others are closed when their last user leaves.
func (s *Servers) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for url, at := range s.all {
		if at.users == 0 {
			s.close(url, at)
		}
	}
}

// sameLogin reports whether two configurations of the same URL lead to the same server with the same credentials.
func sameLogin(a, b *pgx.ConnConfig) bool {
	return a.Host == b.Host && a.Port == b.Port && a.User == b.User && a.Password == b.Password && sameCertificates(a.TLSConfig, b.TLSConfig)
}

func sameCertificates(a, b *tls.Config) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.RootCAs.Equal(b.RootCAs) && slices.EqualFunc(a.Certificates, b.Certificates, func(x, y tls.Certificate) bool {
		return slices.EqualFunc(x.Certificate, y.Certificate, bytes.Equal)
	})
}

// errBusy is returned if other sessions of this process use all connections for a long time.
var errBusy = errors.New("all connections of this process to the server are in use; allow more of them with pool_max_conns=N in the destination's url")

// patiently calls take, which waits for a connection or for a place. If this takes longer than limit, patiently returns
// an error. // Invariant 15
func patiently(ctx context.Context, limit time.Duration, take func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := take(limited)
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return fmt.Errorf("waited %s for a connection: %w", limit, errBusy)
	}
	return err
}
