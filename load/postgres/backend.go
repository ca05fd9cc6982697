package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
)

// backend implements [sqlmerge.Backend] and [sqlmerge.Pooled].
type backend struct {
	dialect
	o      Options
	pool   *pool
	own    ownTables
	passes *passTables
	stats  statistics
}

var (
	_ sqlmerge.Backend  = (*backend)(nil)
	_ sqlmerge.Pooled   = (*backend)(nil)
	_ sqlmerge.Digester = (*backend)(nil)
)

// Exists implements [sqlmerge.Backend].
func (b *backend) Exists() bool { return true }

// Retry implements [sqlmerge.Backend]. The transaction waits for a place of its own.
func (b *backend) Retry(ctx context.Context, f func() error) error { return b.pool.write(ctx, f) }

// Step implements [sqlmerge.Backend].
func (b *backend) Step(name string) error { return load.Step(b.o.Step, name) }

// Read implements [sqlmerge.Backend].
func (b *backend) Read(ctx context.Context, f func(sqlmerge.Reader) error) error {
	return b.pool.read(ctx, func(s *session) error { return f(&reader{s, b.schema}) })
}

// reader implements [sqlmerge.Reader] in a read-only transaction.
type reader struct {
	*session
	schema string
}

// Objects implements [sqlmerge.Reader].
func (r *reader) Objects(ctx context.Context, names []string) (map[string]*sqlmerge.Object, error) {
	found, err := readObjects(ctx, r.session, r.schema, names)
	for _, o := range found {
		if o.suspect {
			o.Unsafe = []string{"another role may have attached something to it"} // a transaction that writes finds out whether that is true
		}
	}
	return objectsOf(found), err
}

// Write implements [sqlmerge.Backend]. It begins a transaction that belongs to no stream.
func (b *backend) Write(ctx context.Context) (sqlmerge.Session, error) {
	s, err := b.pool.acquire(ctx)
	if err != nil {
		return nil, err
	}
	t := &transaction{session: s, b: b}
	if err = s.begin(ctx); err == nil && !b.own.exist() {
		if err = b.prepare(ctx, s, ""); errors.Is(err, load.ErrUnshared) {
			err = b.prepare(ctx, s, anySource)
		}
	}
	if err != nil {
		t.discard()
		return nil, err
	}
	return t, nil
}

// Length implements [sqlmerge.Digester].
func (b *backend) Length(text string) string { return "length(" + text + ")::text" }

// Text implements [sqlmerge.Digester].
func (b *backend) Text(expr string) string { return expr + "::text" }

// Digest implements [sqlmerge.Digester].
func (b *backend) Digest(text string) string {
	return "encode(sha256(convert_to(coalesce(string_agg(" + text + ", ',' ORDER BY " + text + " COLLATE \"C\"), ''), 'UTF8')), 'hex')"
}

// DigestsAtOnce implements [sqlmerge.Digester]. One statement saves round trips.
func (b *backend) DigestsAtOnce() int { return math.MaxInt }

// Discard implements [sqlmerge.Pooled].
func (b *backend) Discard(table string) { b.passes.discard(table) }

// anySource takes the place of a source's name where it matters only that sources share tables, not which source is
// meant.
const anySource = "any"

// prepare creates the schema and penstock's own tables if they are missing. It is called at the beginning of a
// transaction, before any change. It commits the new tables at once, and begins another transaction. Otherwise, streams
// that start at the same time would wait for this transaction, because they need the same tables. The tables stay empty
// until the first commit of a stream.
func (b *backend) prepare(ctx context.Context, s *session, source string) error {
	lacking, err := lackingOwn(ctx, s, b.schema, source)
	if err != nil {
		return err
	}
	found, err := checkOwn(ctx, s, b.schema)
	if err != nil {
		return err
	}
	if found.unsafe != nil {
		return fmt.Errorf("%w: %s", ErrUnsafe, strings.Join(found.unsafe, "; "))
	}
	b.passes.noteStale(found.carried)
	b.warn(found.warnings)
	if len(lacking) > 0 {
		if err := createLacking(ctx, s, b.dialect, source); err != nil {
			return fmt.Errorf("create penstock's own tables in schema %s: %w", b.schema, err)
		}
		if err := s.run(ctx, "COMMIT; "+s.pool.beginSQL()); err != nil {
			return err
		}
	}
	b.own.learn(source)
	return nil
}

// warn logs each warning only once for all destinations with the same [Options].LoggedWarnings.
func (b *backend) warn(warnings []string) {
	for _, w := range warnings {
		if _, logged := b.o.LoggedWarnings.LoadOrStore(w, true); !logged {
			b.o.Log.Warn("postgres: " + w)
		}
	}
}

// dropPassTables drops the tables of finished passes. It uses another session for that. If it fails, a later commit
// drops the tables.
func (b *backend) dropPassTables() {
	if !b.passes.waiting() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollbackGrace)
	defer cancel()
	if s, err := b.pool.acquire(ctx); err == nil {
		defer s.release()
		b.passes.drop(ctx, s)
	}
}
