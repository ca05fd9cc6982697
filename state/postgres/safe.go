package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/penstock-data/penstock/state"
)

// safe stores secrets in the database. This process encrypts them first. So neither the owner of the database nor a
// reader of a backup sees them. // Invariant 5
type safe struct{ s *Store }

var _ state.Safe = safe{}

// Vault implements [state.Store].
func (s *Store) Vault() *state.Vault { return state.NewVaultIn(safe{s}) }

// Check implements [state.Safe]. Without a key it returns [ErrNoKey].
func (f safe) Check() error {
	if strings.TrimSpace(f.s.o.Keys) == "" {
		return ErrNoKey
	}
	_, err := state.Identities(f.s.o.Keys)
	return err
}

// Now implements [state.Safe].
func (f safe) Now() time.Time { return f.s.Now() }

// Lock implements [state.Safe]. Only one process at a time has the lock. // Invariant 13
func (f safe) Lock(ctx context.Context, name string, wait time.Duration) (state.Lease, error) {
	l, err := f.s.take(ctx, leaseOf(name), wait)
	if err != nil {
		return nil, err
	}
	f.s.mu.Lock()
	f.s.entryLeases[name] = l
	f.s.mu.Unlock()
	return l, nil
}

func leaseOf(name string) string { return "token " + name }

const safeTime = 20 * time.Second

// Read implements [state.Safe].
func (f safe) Read(name string, what state.Part) (text []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), safeTime)
	defer cancel()
	err = f.s.read(ctx, func(q querier) error {
		return q.QueryRow(ctx, "SELECT "+column(what)+" FROM secrets WHERE name = $1", name).Scan(&text)
	})
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read credential: %w", err)
	case text == nil || what == state.PartNote:
		return text, nil
	}
	if text, err = f.open(text); err != nil {
		return nil, fmt.Errorf("read credential: %w", err)
	}
	return text, nil
}

func (f safe) open(text []byte) ([]byte, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	return state.Unseal(f.s.o.Keys, text)
}

func (f safe) seal(text []byte) ([]byte, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	return state.Seal(f.s.o.Keys, text)
}

// Write implements [state.Safe]. If this process has lost the lock, Write changes nothing. A process can lose the lock
// while it is suspended. Invariant 13
func (f safe) Write(name string, what state.Part, text []byte, step func(string)) error {
	f.s.mu.Lock()
	l := f.s.entryLeases[name]
	f.s.mu.Unlock()
	if l == nil {
		return fmt.Errorf("write credential %s: its lock is not held", name)
	}
	if what == state.PartSecret && len(text) > 0 {
		var err error
		if text, err = f.seal(text); err != nil {
			return fmt.Errorf("write credential: %w", err)
		}
		step("sealed")
	}
	ctx, cancel := context.WithTimeout(context.Background(), safeTime)
	defer cancel()
	err := f.s.change(ctx, func(tx pgx.Tx) error {
		var ours bool
		err := tx.QueryRow(ctx, "SELECT coalesce((SELECT token = $2 AND until > clock_timestamp() FROM leases WHERE name = $1 FOR UPDATE), false)", leaseOf(name), l.token).Scan(&ours)
		switch {
		case err != nil:
			return err
		case !ours:
			return fmt.Errorf("%w: the lock was lost while this process was suspended", state.ErrLocked)
		}
		_, err = tx.Exec(ctx, "INSERT INTO secrets (name, "+column(what)+") VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET "+column(what)+" = excluded."+column(what), name, text)
		return err
	})
	if err != nil {
		return fmt.Errorf("write credential: %w", err)
	}
	step("durable")
	return nil
}

func column(what state.Part) string {
	if what == state.PartSecret {
		return "secret"
	}
	return "note"
}

// Where implements [state.Safe].
func (f safe) Where(name string) string { return "the state database, encrypted, as " + name }
