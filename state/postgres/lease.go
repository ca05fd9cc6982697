package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstock-data/penstock/state"
)

// Times of leases. If the holder cannot renew a lease, it treats the lease as lost before the database can give it to
// another process. The holder measures elapsed time, so changes of the time of day do not matter. Invariant 13
const (
	leaseTime = 30 * time.Second
	leaseLook = 200 * time.Millisecond // interval between attempts to take a lease that another process holds
)

func (o Options) leaseLife() time.Duration { return cmp.Or(o.Life, leaseTime) }

// trustTime returns how long a holder may rely on a lease. The time starts when the holder sends a request to get or
// renew the lease.
func (o Options) trustTime() time.Duration { return o.leaseLife() - o.leaseLife()/6 }

type lease struct {
	s      *Store
	name   string
	token  int64
	lost   chan struct{}
	stop   context.CancelFunc
	renews sync.WaitGroup
	once   func() error
}

var _ state.Lease = (*lease)(nil)

// Lease implements [state.Store].
func (s *Store) Lease(ctx context.Context, pipeline, source string, wait time.Duration) (state.Lease, error) {
	l, err := s.take(ctx, "pipeline "+state.LeaseName(pipeline, source), wait)
	if err != nil {
		return nil, err
	}
	return l, nil
}

func (s *Store) take(ctx context.Context, name string, wait time.Duration) (*lease, error) {
	for begun := time.Now(); ; {
		l, holder, err := s.tryTake(ctx, name)
		switch {
		case err != nil:
			return nil, fmt.Errorf("lease %s: %w", name, err)
		case l != nil:
			return l, nil
		case time.Since(begun) >= wait:
			return nil, fmt.Errorf("lease %s: %w: %s", name, state.ErrLocked, holder)
		}
		select {
		case <-time.After(min(leaseLook, wait-time.Since(begun)+time.Millisecond)):
		case <-ctx.Done():
			return nil, fmt.Errorf("lease %s: %w", name, context.Cause(ctx))
		}
	}
}

func (s *Store) tryTake(ctx context.Context, name string) (l *lease, holder string, err error) {
	mine := fmt.Sprintf("held by %s (%s, %s)", filepath.Base(os.Args[0]), s.me, nonce())
	var token int64
	var asked time.Time
	err = s.change(ctx, func(tx pgx.Tx) error {
		asked = time.Now()
		err := tx.QueryRow(ctx, `INSERT INTO leases AS l (name, token, holder, since, until)
			VALUES ($1, nextval('lease_tokens'), $2, clock_timestamp(), clock_timestamp() + $3)
			ON CONFLICT (name) DO UPDATE SET token = excluded.token, holder = excluded.holder, since = excluded.since, until = excluded.until
				WHERE l.until <= clock_timestamp() OR l.holder = excluded.holder
			RETURNING token`, name, mine, s.o.leaseLife()).Scan(&token)
		if err == nil {
			_, err = tx.Exec(ctx, expiredLeases, unusedLease, mostUnused)
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		err = tx.QueryRow(ctx, "SELECT holder || ' since ' || to_char(since, 'YYYY-MM-DD HH24:MI:SS TZ') FROM leases WHERE name = $1", name).Scan(&holder)
		if errors.Is(err, pgx.ErrNoRows) {
			err, holder = nil, "holder unknown" // the holder has released the lease meanwhile
		}
		return err
	})
	if err != nil || token == 0 {
		return nil, holder, err
	}
	return s.hold(ctx, name, token, asked), "", nil
}

// unusedLease is how old an expired lease must be before it is deleted. Its process was killed, and no process has taken
// the lease since then, because its source or pipeline is gone. Neither the holder nor another process trusts an expired
// lease, and a later lease of the same name gets a greater token. Invariant 13
const unusedLease = 7 * 24 * time.Hour

// expiredLeases deletes unused leases. Each new lease does this, so the table does not grow forever. The column since
// has an index. It stays the same while a lease is renewed, so a renewal changes no index.
const expiredLeases = `DELETE FROM leases WHERE name = ANY(ARRAY(SELECT name FROM leases
	WHERE since < statement_timestamp() - $1::interval AND until < statement_timestamp() - $1::interval ORDER BY since LIMIT $2 FOR UPDATE SKIP LOCKED))`

func (s *Store) hold(ctx context.Context, name string, token int64, asked time.Time) *lease {
	l := &lease{s: s, name: name, token: token, lost: make(chan struct{})}
	live, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	l.renews.Go(func() { l.live(live, asked) })
	l.once = sync.OnceValue(l.release)
	return l
}

// live() renews the lease. If more than trustTime has passed since the last successful renewal was sent, the lease
// counts as lost. A renewal that hangs or whose answer is late does not extend this time.
func (l *lease) live(ctx context.Context, asked time.Time) {
	lose := sync.OnceFunc(func() { close(l.lost) })
	end := time.AfterFunc(time.Until(asked.Add(l.s.o.trustTime())), lose)
	defer end.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.lost:
			return
		case <-time.After(l.s.o.leaseLife() / 4):
		}
		now := time.Now()
		limited, cancel := context.WithDeadline(ctx, asked.Add(l.s.o.trustTime()))
		kept, err := l.renew(limited)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && !kept:
			lose()
		case err == nil && end.Reset(time.Until(now.Add(l.s.o.trustTime()))):
			asked = now
		}
	}
}

func (l *lease) renew(ctx context.Context) (kept bool, err error) {
	err = l.s.change(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, "UPDATE leases SET until = clock_timestamp() + $1 WHERE name = $2 AND token = $3 AND until > clock_timestamp()", l.s.o.leaseLife(), l.name, l.token)
		kept = tag.RowsAffected() == 1
		return err
	})
	return kept, err
}

// Token implements [state.Lease].
func (l *lease) Token() int64 { return l.token }

// Lost implements [state.Lease].
func (l *lease) Lost() <-chan struct{} { return l.lost }

// Release implements [state.Lease].
func (l *lease) Release() error { return l.once() }

func (l *lease) release() error {
	l.stop()
	l.renews.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	err := l.s.change(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "DELETE FROM leases WHERE name = $1 AND token = $2", l.name, l.token)
		return err
	})
	if err != nil {
		return fmt.Errorf("release lease %s: %w", l.name, err)
	}
	return nil
}
