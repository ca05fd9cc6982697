package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/pgerror"
)

//go:embed migrations/*.sql
var migrations embed.FS

const latest = 3

// Migrate creates the schema, or migrates it to this program's version. It returns the versions before and after. If
// several processes migrate at the same time, one does the work and the others wait. If the schema has a newer
// version, Migrate changes nothing and returns [state.ErrNewer], wrapped.
func (s *Store) Migrate(ctx context.Context) (from, to int64, err error) {
	d, err := s.connections(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("migrate: %w", shorten(err))
	}
	if d.begin != "" {
		return 0, 0, fmt.Errorf("migrate: %w", ErrPooled)
	}
	pool := d.Pool
	if err := s.inspect(ctx, d); errors.Is(err, state.ErrNewer) {
		return 0, 0, fmt.Errorf("migrate: %w", err)
	}
	if err := makeSchema(ctx, pool, s.schema); err != nil {
		return 0, 0, fmt.Errorf("migrate: %w", shorten(err))
	}
	p, err := s.provider(pool)
	if err != nil {
		return 0, 0, fmt.Errorf("migrate: %w", err)
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if from, err = p.GetDBVersion(ctx); err != nil {
		return 0, 0, fmt.Errorf("migrate: %w", shorten(err))
	}
	if _, err = p.Up(ctx); err != nil {
		return from, from, fmt.Errorf("migrate: %w", shorten(err))
	}
	to, err = p.GetDBVersion(ctx)
	return from, to, err
}

// makeSchema creates the schema if it is missing. It does not use CREATE SCHEMA IF NOT EXISTS for two reasons: the
// statement requires the right to create schemas even if the schema exists, and two such statements at the same time
// can conflict.
func makeSchema(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('penstock schema ' || $1, 0))", schema); err != nil {
			return err
		}
		var there bool
		err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_namespace WHERE nspname = $1)", schema).Scan(&there)
		if err != nil || there {
			return err
		}
		_, err = tx.Exec(ctx, "CREATE SCHEMA "+pgx.Identifier{schema}.Sanitize())
		return err
	})
}

func (s *Store) provider(pool *pgxpool.Pool) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	id := fnv.New64a()
	_, _ = id.Write([]byte("penstock " + s.schema))
	// Try every second, for a minute.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockID(int64(id.Sum64())), lock.WithLockTimeout(1, 60))
	if err != nil {
		return nil, err
	}
	c := pool.Config().ConnConfig.Copy()
	delete(c.RuntimeParams, "statement_timeout") // creating an index may take longer than this timeout
	return goose.NewProvider(goose.DialectPostgres, stdlib.OpenDB(*c), files, goose.WithSessionLocker(locker), goose.WithTableName(versionTable))
}

const versionTable = "migrations"

func (s *Store) inspect(ctx context.Context, d *database) error {
	var version int64
	var there time.Time
	asked := time.Now()
	err := d.view(ctx, func(q querier) error {
		return q.QueryRow(ctx, "SELECT coalesce(max(version_id), 0), clock_timestamp() FROM "+versionTable+" WHERE is_applied").Scan(&version, &there)
	})
	if err == nil {
		s.clock.record(there, asked)
	}
	if c := pgerror.Code(err); c == pgerror.UndefinedTable || c == pgerror.UndefinedName {
		version, err = 0, nil
	}
	switch {
	case err != nil:
		return err
	case version > latest:
		return fmt.Errorf("schema %s has version %d, and this program supports %d: %w", s.schema, version, latest, state.ErrNewer)
	case version < latest:
		return fmt.Errorf("schema %s has version %d, and this program needs version %d: %w", s.schema, version, latest, ErrUnmigrated)
	}
	return nil
}

// Health describes the state database, for the command check.
type Health struct {
	Schema        string
	Version       int64         // version of the schema
	Server        string        // version of Postgres
	MissingRights []string      // rights that penstock's role lacks, in the syntax of GRANT
	Ahead         time.Duration // the database's clock minus this machine's clock
}

// Health checks the schema and the rights of penstock's role. It returns [ErrUnmigrated] or [state.ErrNewer],
// wrapped, if the schema has another version.
func (s *Store) Health(ctx context.Context) (h Health, err error) {
	err = s.read(ctx, func(q querier) error {
		h = Health{Schema: s.schema, Version: latest}
		if err := q.QueryRow(ctx, "SHOW server_version").Scan(&h.Server); err != nil {
			return err
		}
		rows, err := q.Query(ctx, `SELECT r.wanted || ' ON ' || c.relname FROM pg_class c
			CROSS JOIN LATERAL unnest(CASE c.relkind WHEN 'S' THEN ARRAY['USAGE'] ELSE ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'] END) r(wanted)
			WHERE c.relnamespace = $1::text::regnamespace AND c.relkind IN ('r', 'S') AND c.relname NOT LIKE 'river\_%' AND c.relname NOT LIKE $2 || '%'
				AND NOT CASE c.relkind WHEN 'S' THEN has_sequence_privilege(c.oid, r.wanted) ELSE has_table_privilege(c.oid, r.wanted) END
			ORDER BY 1`, pgx.Identifier{s.schema}.Sanitize(), versionTable)
		if err != nil {
			return err
		}
		if h.MissingRights, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
			return err
		}
		// Read the clock again, because connecting may have made the first reading inaccurate.
		err = s.clock.query(ctx, q, "SELECT clock_timestamp()")
		h.Ahead = time.Until(s.Now())
		return err
	})
	if err != nil {
		return h, fmt.Errorf("check the state database: %w", err)
	}
	return h, nil
}
