//go:build !cgo || !duckdb_arrow

package duckdb

import (
	"context"
	"fmt"

	"github.com/penstock-data/penstock/load"
)

// ParquetViews is not available in this build.
type ParquetViews struct{ load.Querier }

// OpenParquet returns [ErrNotBuilt].
func OpenParquet(context.Context, map[string][]string, map[string][]string, map[string]string) (*ParquetViews, error) {
	return nil, fmt.Errorf("open parquet files: %w", ErrNotBuilt)
}

// Close does nothing.
func (*ParquetViews) Close() error { return nil }
