package postgres

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/pgerror"
)

// tx is a transaction of a stream. After a transient error, such as a lost connection, it runs again on another
// connection.
type tx struct {
	load.Tx
	b         *backend
	key       state.Key
	pass      load.Pass
	queued    time.Duration // time spent waiting for other sources that change the same tables
	keepalive keepalive
	release   func()       // gives back the place of the transaction; nil: it has none
	s         *transaction // the transaction of this attempt; nil: not begun, or ended
}

// Apply implements [load.Tx].
func (x *tx) Apply(ctx context.Context, s load.Sweep) (load.Outcome, error) {
	defer x.reserveSession()()
	if err := x.reservePlace(ctx); err != nil {
		return load.Outcome{}, err
	}
	return x.Tx.Apply(ctx, s)
}

// Commit implements [load.Tx].
func (x *tx) Commit(ctx context.Context, next state.Cursor) error {
	defer x.reserveSession()()
	if err := x.reservePlace(ctx); err != nil {
		return errors.Join(err, x.Tx.Rollback())
	}
	defer x.release()
	return x.Tx.Commit(ctx, next)
}

// Rollback implements [load.Tx].
func (x *tx) Rollback() error {
	defer x.reserveSession()()
	if x.release == nil {
		x.release = func() {} // without a reserved place (see [server]), and after Rollback x must not reserve one
	}
	defer x.release()
	return x.Tx.Rollback()
}

// reservePlace reserves a place for the transaction; see [server]. The transaction keeps the place while its attempts
// fail and are repeated. It gives the place back when it ends.
func (x *tx) reservePlace(ctx context.Context) (err error) {
	if x.release == nil {
		x.release, err = x.b.pool.reserve(ctx, passID{x.key.Pipeline, x.pass.Source, x.key.Stream, x.pass.Run}, x.b.o.Together)
	}
	return err
}

// open acquires a session, begins a database transaction, and locks the stream's row.
func (x *tx) open(ctx context.Context) (sqlmerge.Session, error) {
	s, err := x.b.pool.acquire(ctx)
	if err != nil {
		return nil, err
	}
	t, begin := &transaction{session: s, b: x.b, of: x}, x.b.pool.beginSQL()+"; "
	if !x.b.own.known(x.key.Source) {
		if begin, err = "", s.begin(ctx); err == nil {
			err = x.b.prepare(ctx, s, x.key.Source)
		}
	}
	if err == nil {
		err = x.b.Step("fence")
	}
	if err == nil {
		if t.at, err = fence(ctx, s, x.b.dialect, x.key, begin); err == nil {
			x.s = t
			return t, nil
		}
		err = fmt.Errorf("lock cursor: %w", x.b.own.recheck(err))
	}
	t.discard()
	return nil, err
}

// transaction implements [sqlmerge.PooledSession] and [sqlmerge.Keyed].
type transaction struct {
	*session
	b         *backend
	at        position                     // position of the stream
	of        *tx                          // the tx that this transaction belongs to; nil: it belongs to no stream
	types     map[string]map[string]string // the known types of columns, by table and column
	rejects   [][]any                      // rows for [load.Rejects]
	written   map[string]writtenRows       // by table
	kept      string                       // the table of carried keys that this transaction has created in the schema
	committed bool
}

var (
	_ sqlmerge.Session       = (*transaction)(nil)
	_ sqlmerge.PooledSession = (*transaction)(nil)
	_ sqlmerge.Keyed         = (*transaction)(nil)
)

// Position implements [sqlmerge.PooledSession].
func (t *transaction) Position() (cursor state.Cursor, sequence, moved int64) {
	return t.at.cursor, t.at.sequence, t.at.moved
}

// Lock implements [sqlmerge.PooledSession] with advisory locks. It takes them after a savepoint, because a rollback to
// the savepoint releases them.
func (t *transaction) Lock(ctx context.Context, names ...string) (func(release bool) error, error) {
	locks := make([]string, len(names))
	for i, name := range names {
		locks[i] = "penstock " + t.b.schema + " " + name
	}
	begun := time.Now()
	err := t.run(ctx, "SAVEPOINT penstock_line; "+t.pool.advisoryLockSQL(locks...))
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

// Query implements [sqlmerge.Reader].
func (t *transaction) Query(ctx context.Context, query string, row func([]sqldriver.Value) error) error {
	return t.b.own.recheck(t.session.Query(ctx, query, row))
}

// Exec implements [sqlmerge.Session].
func (t *transaction) Exec(ctx context.Context, query string) error {
	return t.b.own.recheck(t.run(ctx, query))
}

// Affect implements [sqlmerge.Session].
func (t *transaction) Affect(ctx context.Context, query string) (int64, error) {
	return t.affect(ctx, query)
}

// DeleteSome implements [sqlmerge.Session]. A place is the physical address of a row. Deleted rows stay in the table
// until a vacuum, and no index finds the old rows. If each call scanned the table from its beginning, the time would
// grow with the square of the number of old rows. If a row changes at the same time, it gets another address, and stays.
func (t *transaction) DeleteSome(ctx context.Context, table, condition, after string, limit int64) (n int64, last string, err error) {
	if after != "" {
		condition = "ctid > " + literal(after) + "::tid AND " + condition
	}
	query := fmt.Sprintf("WITH gone AS (DELETE FROM %[1]s WHERE ctid = ANY (ARRAY(SELECT ctid FROM %[1]s WHERE %[2]s LIMIT %[3]d)) RETURNING ctid) "+
		"SELECT count(*), max(ctid)::text FROM gone", t.b.Place(table), condition, limit)
	err = t.Query(ctx, query, func(v []sqldriver.Value) error {
		n, _ = v[0].(int64)
		last, _ = v[1].(string)
		return nil
	})
	return n, last, err
}

// CreateTemp implements [sqlmerge.Session].
func (t *transaction) CreateTemp(ctx context.Context, name, definition string) error {
	return t.run(ctx, temporary("pg_temp."+name, definition))
}

// Try implements [sqlmerge.Keyed].
func (t *transaction) Try(ctx context.Context, f func() error) (bool, error) {
	return t.undo(ctx, codeUnique, f)
}

// undo calls f. If f fails with the given error code, undo rolls back the changes of f and returns false.
func (t *transaction) undo(ctx context.Context, failure string, f func() error) (bool, error) {
	if err := t.run(ctx, "SAVEPOINT penstock_try"); err != nil {
		return false, err
	}
	err := f()
	switch {
	case err == nil:
		return true, t.run(ctx, "RELEASE SAVEPOINT penstock_try")
	case pgerror.Code(err) == failure:
		return false, t.run(ctx, "ROLLBACK TO SAVEPOINT penstock_try; RELEASE SAVEPOINT penstock_try")
	}
	return false, err
}

// commitGrace is how long a COMMIT may continue after its context has ended. Until the server answers, the outcome is
// unknown.
const commitGrace = 5 * time.Second

// Commit implements [sqlmerge.Session]. If the answer is lost, it waits until the outcome is known. // Invariants 1, 2
func (t *transaction) Commit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	late, release := withGrace(ctx, commitGrace)
	defer release()
	tag, err := t.exec(late, "COMMIT", ignore)
	switch {
	case err == nil && tag.String() != "COMMIT": // the server has rolled back
		return fmt.Errorf("the server answered %s", tag)
	case err == nil:
		t.committed = true
		t.analyze(ctx)
		return nil
	case t.of == nil || !pgerror.Disconnected(err) && late.Err() == nil:
		return err
	}
	if serr := settle(late, t.pool, t.b.dialect, t.of.key); serr != nil {
		return fmt.Errorf("the answer to COMMIT was lost, and its outcome is unknown: %w", errors.Join(permanent{err}, permanent{serr}))
	}
	return fmt.Errorf("%w: %w", sqlmerge.ErrUnanswered, err)
}

// withGrace returns a context that continues for the time d after ctx has ended.
func withGrace(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(d):
			cancel()
		case <-late.Done():
		}
	})
	return late, func() { stop(); cancel() }
}

// permanent wraps an error so that retry does not treat it as transient.
type permanent struct{ err error }

// Error returns the text of the wrapped error.
func (p permanent) Error() string { return p.err.Error() }

// Rollback implements [sqlmerge.Session].
func (t *transaction) Rollback() error {
	t.rollback()
	t.b.passes.forget(t.kept)
	return nil
}

// End implements [sqlmerge.Session]. After a commit, it drops tables of carried keys that are no longer needed.
func (t *transaction) End() {
	if t.committed {
		ctx, cancel := context.WithTimeout(context.Background(), rollbackGrace)
		defer cancel()
		if t.of != nil {
			t.b.passes.findLeftovers(ctx, t.session, t.of.key, t.kept != "")
		}
		t.b.passes.drop(ctx, t.session)
	}
	t.discard()
}

// discard releases the session.
func (t *transaction) discard() {
	if t.of != nil && t.of.s == t {
		t.of.s = nil
	}
	t.rollback()
	t.release()
}
