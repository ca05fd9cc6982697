package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/penstock-data/penstock/state/pgerror"
)

// Unavailable reports whether err says that the database does not answer, or that it refuses sessions for now. The
// configuration may still be correct, because the same request may succeed later.
func Unavailable(err error) bool { return pgerror.Transient(err) || errors.Is(err, errSilent) }

// errSilent means that the database did not answer a ping in time.
var errSilent = errors.New("the state database does not answer")

// Ping makes one attempt to get an answer from the database. If the schema has another version, it returns
// [ErrUnmigrated] or [state.ErrNewer], wrapped.
func (s *Store) Ping(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	pool, err := s.ready(limited)
	if err == nil {
		err = pool.Ping(limited)
	}
	switch {
	case err == nil:
		s.outage.answered(s.o.Log)
		return nil
	case limited.Err() != nil && ctx.Err() == nil:
		err = fmt.Errorf("%w: %w", errSilent, err)
	}
	s.outage.failed(err, s.o.Log)
	return shorten(err)
}

// outageTold is how long the database must be unreachable before this is logged. Usually, a lost connection is replaced
// sooner.
const outageTold = time.Second

// outage logs once when the database does not answer, and once when it answers again. It is safe for concurrent use.
type outage struct {
	mu    sync.Mutex
	since time.Time // zero: the database answers
	told  bool
}

// failed() records an error of the database.
func (o *outage) failed(err error, log *slog.Logger) {
	if log == nil || !pgerror.Disconnected(err) && !errors.Is(err, errSilent) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		o.since = time.Now()
	}
	if !o.told && time.Since(o.since) >= outageTold {
		o.told = true
		log.Warn("the state database does not answer; trying again until it does", "error", shorten(err))
	}
}

// answered() records an answer of the database.
func (o *outage) answered(log *slog.Logger) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.told {
		log.Info("the state database answers again", "after", time.Since(o.since).Round(time.Millisecond))
	}
	o.since, o.told = time.Time{}, false
}
