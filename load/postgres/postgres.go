package postgres

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/sqlmerge"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// DB is a destination in one schema of a Postgres database. Its methods are safe for concurrent use. Transactions of
// different streams run in parallel.
type DB struct {
	*sqlmerge.Store
	b *backend
}

var (
	_ load.Destination = (*DB)(nil)
	_ load.Querier     = (*DB)(nil)
	_ load.Viewer      = (*DB)(nil)
	_ load.Sharer      = (*DB)(nil)
	_ load.Surveyor    = (*DB)(nil)
)

// Open connects to the database. It waits a while for a server that is starting. It creates no schema and no table: the
// first commit creates them. The caller closes the destination.
func Open(ctx context.Context, o Options) (*DB, error) {
	o.Schema, o.JSON = cmp.Or(o.Schema, "public"), cmp.Or(o.JSON, "jsonb")
	if o.JSON != "jsonb" && o.JSON != "json" {
		return nil, fmt.Errorf("open postgres: JSON columns of type %q: want jsonb or json", o.JSON)
	}
	if len(o.Schema) > schemas.MaxName {
		return nil, fmt.Errorf("open postgres: the schema's name %q has more than %d bytes", o.Schema, schemas.MaxName)
	}
	o.LockTimeout, o.Wait, o.IdleTimeout = cmp.Or(o.LockTimeout, defaultLockTimeout), cmp.Or(o.Wait, defaultWait), cmp.Or(o.IdleTimeout, defaultSilence)
	o.LoggedWarnings, o.Log = cmp.Or(o.LoggedWarnings, &sync.Map{}), cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	o.Together = max(o.Together, 1)
	if o.Servers == nil {
		o.Servers = &Servers{closed: true} // so that Close closes the connections at once
	}
	p, err := connect(o)
	if err != nil {
		return nil, fmt.Errorf("open postgres: %w", err)
	}
	sql := dialect{o.Schema, o.JSON}
	if err = p.checkServer(ctx, sql); err != nil {
		p.close()
		return nil, fmt.Errorf("open postgres at %s: %w", p.address(), err)
	}
	b := &backend{dialect: sql, o: o, pool: p, own: ownTables{ready: map[bool]bool{}}, passes: newPassTables(sql, o.Log), stats: statistics{written: map[string]int64{}, analyzed: map[string]int64{}}}
	return &DB{Store: sqlmerge.New(b), b: b}, nil
}

// Close closes the destination. Its open transactions end without a commit. Other destinations with the same
// [Options].Servers may continue to use its connections.
func (d *DB) Close() error {
	d.b.passes.discardAll()
	d.b.dropPassTables()
	d.b.pool.close()
	return nil
}

// Begin implements [load.Destination].
func (d *DB) Begin(ctx context.Context, k state.Key, from state.Cursor, p load.Pass) (load.Tx, error) {
	x := &tx{b: d.b, key: k, pass: p}
	var err error
	x.Tx, err = d.BeginRepeatable(ctx, k, from, p, sqlmerge.Repetition{
		Open:  x.open,
		Retry: func(ctx context.Context, f func() error) error { return d.b.pool.retryExcluding(ctx, &x.queued, f) },
	})
	if err != nil {
		return nil, err
	}
	return x, nil
}

// Share implements [load.Sharer].
func (d *DB) Share(source string) load.Destination {
	part := d.Store.Share(source).(load.SourcePart)
	part.Destination = d
	return part
}

// Forget implements [load.Sharer]. It also drops the tables of carried keys.
func (d *DB) Forget(pipeline, source string) {
	d.Store.Forget(pipeline, source)
	d.b.dropPassTables()
}

// Accept implements [load.Destination].
func (d *DB) Accept(ctx context.Context, table string) (changes []load.Change, err error) {
	err = d.b.pool.write(ctx, func() error {
		changes, err = d.Store.Accept(ctx, table)
		return err
	})
	return changes, err
}

// Schema implements [load.Viewer].
func (d *DB) Schema() string { return d.b.schema }

// View implements [load.Viewer]. In the query, the names of tables include the schema. Names without a schema mean
// built-in objects, so the view never uses an object of another role by mistake. Grants on an existing view are kept.
// If the columns of the view have changed, the view is dropped and created again. That fails if another view depends on
// it.
func (d *DB) View(ctx context.Context, name, query string) error {
	return d.b.pool.write(ctx, func() error { return d.CreateView(ctx, name, query) })
}

// Query implements [load.Querier]. The statement runs in a read-only transaction. Names without a schema mean tables
// of the destination's schema.
func (d *DB) Query(ctx context.Context, sql string, visit func(arrow.RecordBatch) error) error {
	q, err := parseQuery(sql)
	if err == nil {
		err = d.b.pool.read(ctx, func(s *session) error { return q.run(ctx, s, d.b.schema, visit) })
	}
	if err != nil {
		return fmt.Errorf("query: %w", err)
	}
	return nil
}

// Check returns [Problems] if the role lacks rights that a run needs. It changes nothing.
func (d *DB) Check(ctx context.Context) error {
	var lacking Problems
	err := d.b.pool.read(ctx, func(s *session) (err error) {
		lacking, err = lackingRights(ctx, s, d.b.schema)
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("check postgres: %w", err)
	case lacking != nil:
		return fmt.Errorf("check postgres: %w", lacking)
	}
	return nil
}

// Warnings warns of rights that a run does not need and that may do harm: rights of penstock's role, and rights of
// other roles in the schema. Each warning is one line and says what to do.
func (d *DB) Warnings(ctx context.Context) (out []string, err error) {
	err = d.b.pool.read(ctx, func(s *session) error {
		out, err = s.strings(ctx, excessSQL(d.b.schema))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("check the rights of the role: %w", err)
	}
	return out, nil
}
