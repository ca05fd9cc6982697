package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstock-data/penstock/state/pgerror"
	"github.com/penstock-data/penstock/state/retry"
)

// reconnect limits the repetitions of an operation after a lost connection or a restart of the
// database. // Invariant 15
var reconnect = retry.Policy{First: 20 * time.Millisecond, Longest: time.Second, Jitter: 0.5, Total: 10 * time.Second}

// errUncertain means that a commit was sent, but its answer did not arrive.
var errUncertain = errors.New("the outcome of the commit is unknown")

// change runs the function update in a transaction, and retries it after temporary errors. If the answer to a commit
// was lost, the commit may have succeeded, and the function runs again. So it must be idempotent. When change returns
// nil, the changes are durable.
// Invariant 3
func (s *Store) change(ctx context.Context, update func(pgx.Tx) error) error {
	return s.retry(ctx, func(err error) bool { return pgerror.Transient(err) || errors.Is(err, errUncertain) }, func(ctx context.Context) error {
		return s.runTx(ctx, update)
	})
}

// changeOnce is like change, for a function that is not idempotent. It does not retry after the commit was sent.
func (s *Store) changeOnce(ctx context.Context, update func(pgx.Tx) error) error {
	return s.retry(ctx, func(err error) bool { return pgerror.Transient(err) && !errors.Is(err, errUncertain) }, func(ctx context.Context) error {
		return s.runTx(ctx, update)
	})
}

func (s *Store) read(ctx context.Context, do func(querier) error) error {
	return s.retry(ctx, pgerror.Transient, func(ctx context.Context) error {
		d, err := s.ready(ctx)
		if err != nil {
			return err
		}
		return d.view(ctx, do)
	})
}

// retry calls the function attempt until it succeeds or fails permanently, or as often as reconnect allows.
func (s *Store) retry(ctx context.Context, temporary func(error) bool, attempt func(context.Context) error) error {
	for tries := reconnect.Begin(); ; {
		err := attempt(ctx)
		if err == nil {
			s.outage.answered(s.o.Log)
			return nil
		}
		s.outage.failed(err, s.o.Log)
		if !temporary(err) || ctx.Err() != nil {
			return shorten(err)
		}
		switch again := tries.Again(ctx); {
		case ctx.Err() != nil:
			return fmt.Errorf("%w: %w", context.Cause(ctx), shorten(err))
		case !again:
			return shorten(err)
		}
	}
}

func (s *Store) runTx(ctx context.Context, update func(pgx.Tx) error) error {
	d, err := s.ready(ctx)
	if err != nil {
		return err
	}
	tx, err := d.Begin(ctx)
	if err != nil {
		return err
	}
	if err = s.step("begun"); err == nil {
		err = update(tx)
	}
	if err == nil {
		err = s.step("changed")
	}
	if err != nil {
		_ = tx.Rollback(context.WithoutCancel(ctx))
		return err
	}
	// If the caller is canceled, the commit still continues, so that its outcome is known.
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementTimeout)
	defer cancel()
	if err := tx.Commit(limited); err != nil {
		if c := pgerror.Code(err); c != "" && !pgerror.Disconnected(err) || errors.Is(err, pgx.ErrTxCommitRollback) {
			return err
		}
		return fmt.Errorf("%w: %w", errUncertain, err)
	}
	return s.step("committed")
}

func (s *Store) ready(ctx context.Context) (*database, error) {
	d, err := s.connections(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	good := s.migrated
	s.mu.Unlock()
	if good {
		return d, nil
	}
	if err := s.inspect(ctx, d); err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.migrated = true
	s.mu.Unlock()
	return d, nil
}

// Troubled reports whether err comes from the database or the network, so that a later attempt may succeed. If the
// schema has another version than this program needs, a later attempt fails too, so Troubled returns false.
func Troubled(err error) bool {
	return pgerror.Code(err) != "" || pgerror.Transient(err)
}

func shorten(err error) error { return pgerror.Shorten(err, "the state database: ") }
