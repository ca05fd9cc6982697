package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
)

// backend implements [sqlmerge.Backend] and [sqlmerge.Pooled].
type backend struct {
	dialect
	d *DB
}

var _ sqlmerge.Pooled = backend{}

// Exists implements [sqlmerge.Backend].
func (backend) Exists() bool { return true }

// Step implements [sqlmerge.Backend].
func (b backend) Step(name string) error { return b.d.step(name) }

// Read implements [sqlmerge.Backend]. If the connection is lost, Read calls f again on another one. After the first batch
// of rows it fails instead, because the caller would otherwise get rows twice.
func (b backend) Read(ctx context.Context, f func(sqlmerge.Reader) error) error {
	var failed error
	err := b.d.withReadTx(ctx, func(s *session) error {
		r := &reader{session: s}
		if failed = f(r); r.begun {
			return nil
		}
		return failed
	})
	if err == nil {
		err = failed
	}
	return err
}

// reader implements [sqlmerge.Reader] in a read-only transaction.
type reader struct {
	*session
	begun bool // rows were passed on
}

// Stream implements [sqlmerge.Reader].
func (r *reader) Stream(ctx context.Context, query string, columns *arrow.Schema, visit func(arrow.RecordBatch) error) error {
	return r.session.Stream(ctx, query, columns, func(b arrow.RecordBatch) error {
		r.begun = true
		return visit(b)
	})
}

// Objects implements [sqlmerge.Reader].
func (r *reader) Objects(ctx context.Context, names []string) (map[string]*sqlmerge.Object, error) {
	found, err := r.db.readObjects(ctx, r.session, names)
	return objectsOf(found), err
}

// Write implements [sqlmerge.Backend]. It begins a transaction that belongs to no stream.
func (b backend) Write(ctx context.Context) (sqlmerge.Session, error) {
	// ErrUnshared is no obstacle: penstock's own tables exist, and sources share them
	if err := b.d.prepare(ctx, ""); err != nil && !errors.Is(err, load.ErrUnshared) {
		return nil, err
	}
	s, err := b.d.acquire(ctx)
	if err != nil {
		return nil, err
	}
	t := &transaction{session: s}
	if err := b.d.begin(ctx, s); err != nil {
		t.discard()
		return nil, err
	}
	return t, nil
}

// lockWaitFactor limits how long a transaction waits for others that change the same table: this many times
// [Options].Wait. Such a wait blocks no reader, and the last of many sources waits for the commits of all others.
const lockWaitFactor = 10

// Lock implements [sqlmerge.PooledSession] with advisory locks. Rolling back to a savepoint releases them.
func (t *transaction) Lock(ctx context.Context, names ...string) (func(release bool) error, error) {
	locks := make([]string, len(names))
	for i, name := range names {
		locks[i] = "penstock " + t.db.o.Schema + " " + name
	}
	begun := time.Now()
	err := t.run(ctx, "SAVEPOINT penstock_line; "+t.db.advisoryLockSQL(locks...))
	if t.of != nil {
		t.of.queued += time.Since(begun)
	}
	if err != nil {
		return nil, fmt.Errorf("wait for other sources to change %s: %w", strings.Join(names, ", "), err)
	}
	return func(release bool) error {
		leave := "RELEASE SAVEPOINT penstock_line"
		if release {
			leave = "ROLLBACK TO SAVEPOINT penstock_line; " + leave
		}
		return t.run(ctx, leave)
	}, nil
}

// advisoryLockSQL returns SQL that waits for the advisory locks with the given names.
func (d *DB) advisoryLockSQL(names ...string) string {
	sql := "SET LOCAL lock_timeout = " + millis(lockWaitFactor*d.o.Wait)
	for _, name := range names {
		sql += "; SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(" + literal(name) + ", 0))"
	}
	return sql + "; SET LOCAL lock_timeout = " + millis(d.o.LockTimeout)
}
