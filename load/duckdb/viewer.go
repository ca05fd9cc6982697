//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"

	"github.com/penstock-data/penstock/load"
)

var _ load.Viewer = (*DB)(nil)

// Schema implements [load.Viewer].
func (d *DB) Schema() string { return "" }

// View implements [load.Viewer].
func (d *DB) View(ctx context.Context, name, query string) error {
	return d.CreateView(ctx, name, query)
}
