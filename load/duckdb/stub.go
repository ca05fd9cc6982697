//go:build !cgo || !duckdb_arrow

package duckdb

import (
	"context"
	"fmt"

	"github.com/penstock-data/penstock/load"
)

// DB is not available in this build.
type DB struct{ load.Destination }

// Open returns [ErrNotBuilt].
func Open(_ context.Context, o Options) (*DB, error) {
	return nil, fmt.Errorf("open %s: %w", o.Path, ErrNotBuilt)
}

// Publish returns [ErrNotBuilt].
func (*DB) Publish(_ context.Context, path string) error {
	return fmt.Errorf("publish %s: %w", path, ErrNotBuilt)
}

// Lend does nothing, because a build without DuckDB opens no file.
func Lend(context.Context, ...string) (func(), error) { return func() {}, nil }
