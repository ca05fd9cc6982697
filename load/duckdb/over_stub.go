//go:build !cgo || !duckdb_arrow

package duckdb

import (
	"context"
	"fmt"

	"github.com/penstock-data/penstock/load"
)

// Views is not available in this build.
type Views struct{ load.Querier }

// Over returns [ErrNotBuilt].
func Over(context.Context, map[string][]string, map[string]string) (*Views, error) {
	return nil, fmt.Errorf("open parquet files: %w", ErrNotBuilt)
}

// Close does nothing.
func (*Views) Close() error { return nil }
