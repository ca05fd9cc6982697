package queue

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// Migrate creates River's tables in a schema, or migrates them to this version. It returns the number of migrations
// that it applied.
func Migrate(ctx context.Context, pool *pgxpool.Pool, schema string) (int, error) {
	m, err := migrator(pool, schema)
	if err != nil {
		return 0, err
	}
	r, err := m.Migrate(ctx, rivermigrate.DirectionUp, nil)
	if err != nil {
		return 0, fmt.Errorf("migrate queue: %w", err)
	}
	return len(r.Versions), nil
}

// Inspect returns which of River's tables or migrations a schema lacks; "" for none.
func Inspect(ctx context.Context, pool *pgxpool.Pool, schema string) (string, error) {
	m, err := migrator(pool, schema)
	if err != nil {
		return "", err
	}
	r, err := m.Validate(ctx, nil)
	if err != nil {
		return "", fmt.Errorf("inspect queue: %w", err)
	}
	return strings.Join(r.Messages, "; "), nil
}

func migrator(pool *pgxpool.Pool, schema string) (*rivermigrate.Migrator[pgx.Tx], error) {
	m, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: schema, Logger: quiet})
	if err != nil {
		return nil, fmt.Errorf("inspect queue: %w", err)
	}
	return m, nil
}
