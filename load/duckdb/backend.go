//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"errors"
	"strings"

	"github.com/penstock-data/penstock/load/sqlmerge"
)

// backend implements [sqlmerge.Backend] and [sqlmerge.Digester].
type backend struct {
	dialect
	d *DB
}

var _ sqlmerge.Digester = backend{}

// Exists implements [sqlmerge.Backend].
func (b backend) Exists() bool { return b.d.exists() }

// Retry implements [sqlmerge.Backend]. It calls f once, because Write already waits for other processes.
func (backend) Retry(_ context.Context, f func() error) error { return f() }

// Step implements [sqlmerge.Backend].
func (b backend) Step(name string) error { return b.d.step(name) }

// Length implements [sqlmerge.Digester].
func (backend) Length(text string) string { return "CAST(length(" + text + ") AS VARCHAR)" }

// Text implements [sqlmerge.Digester].
func (backend) Text(expr string) string { return "CAST(" + expr + " AS VARCHAR)" }

// Digest implements [sqlmerge.Digester]. The engine compares texts by their bytes.
func (backend) Digest(text string) string {
	return "sha256(coalesce(string_agg(" + text + ", ',' ORDER BY " + text + "), ''))"
}

// DigestsAtOnce implements [sqlmerge.Digester]. The engine keeps the sorted texts of all tables until the statement ends:
// about 4 MB for each table with [load.MostDigested] rows.
func (backend) DigestsAtOnce() int { return 8 }

// Read implements [sqlmerge.Backend]. The function sees one snapshot. If the engine's reading session is in use, Read
// opens another session.
func (b backend) Read(ctx context.Context, f func(sqlmerge.Reader) error) (err error) {
	if !b.d.exists() {
		return nil
	}
	e, release, err := b.d.acquire(ctx, reading)
	if err != nil {
		return err
	}
	defer release()
	if e.reader.TryLock() {
		defer e.reader.Unlock()
		return e.read.snapshot(ctx, f)
	}
	s, err := e.connect(ctx)
	if err != nil {
		return err
	}
	return errors.Join(s.snapshot(ctx, f), s.conn.Close())
}

// snapshot calls f in a read-only transaction. If ctx ends while the transaction begins, the engine reports an error, but
// the transaction may have begun.
func (s *session) snapshot(ctx context.Context, f func(sqlmerge.Reader) error) (err error) {
	defer func() { err = errors.Join(err, s.rollback()) }() // even if f panics: other readers use the session
	if err := s.Exec(ctx, "BEGIN TRANSACTION READ ONLY"); err != nil {
		return err
	}
	return f(s)
}

// Write implements [sqlmerge.Backend]. It waits until the process's other transactions on the file have ended, then
// attaches the file.
func (b backend) Write(ctx context.Context) (sqlmerge.Session, error) {
	select {
	case b.d.writer <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	e, release, err := b.d.acquire(ctx, writing)
	if err != nil {
		<-b.d.writer
		return nil, err
	}
	t := &transaction{session: e.write, d: b.d, release: release}
	if err := t.Exec(ctx, "BEGIN TRANSACTION"); err != nil {
		err = errors.Join(err, t.Rollback())
		t.End()
		return nil, err
	}
	return t, nil
}

// transaction implements [sqlmerge.Session].
type transaction struct {
	*session
	d       *DB
	release func()
	altered bool // tables or views were created, altered or dropped
}

// CreateTemp implements [sqlmerge.Session].
func (t *transaction) CreateTemp(ctx context.Context, name, definition string) error {
	return t.Exec(ctx, "CREATE OR REPLACE TEMP TABLE "+name+" "+definition)
}

// DeleteSome implements [sqlmerge.Session].
func (t *transaction) DeleteSome(ctx context.Context, table, condition, _ string, limit int64) (int64, string, error) {
	return sqlmerge.DeleteByRowID(ctx, t, dialect{}.Place(table), condition, limit)
}

// Commit implements [sqlmerge.Session]. It notes whether the next detach must merge the log into the file.
func (t *transaction) Commit(ctx context.Context) error {
	if err := t.Exec(ctx, "COMMIT"); err != nil {
		return err
	}
	if t.altered {
		t.engine.forgetObjects()
	}
	w := &t.d.window
	w.changed = w.changed || t.altered || t.d.logSize() > longLog
	return nil
}

// Rollback implements [sqlmerge.Session].
func (t *transaction) Rollback() error { return t.rollback() }

// rollback ends the transaction, if there is one.
func (s *session) rollback() error {
	err := s.Exec(context.Background(), "ROLLBACK")
	if err == nil || strings.Contains(err.Error(), "no transaction is active") {
		return nil
	}
	s.engine.broken = true
	return err
}

// End implements [sqlmerge.Session].
func (t *transaction) End() {
	t.release()
	<-t.d.writer
}
