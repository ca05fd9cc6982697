//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"errors"
	"fmt"

	"github.com/penstock-data/penstock/load"
)

var _ load.Viewer = (*DB)(nil)

// Schema implements [load.Viewer].
func (d *DB) Schema() string { return "" }

// View implements [load.Viewer].
func (d *DB) View(ctx context.Context, name, query string) error {
	x := &tx{db: d}
	defer x.Rollback()
	if err := x.view(ctx, name, query); err != nil {
		return fmt.Errorf("view %s: %w", name, err)
	}
	return nil
}

func (x *tx) view(ctx context.Context, name, query string) error {
	if err := x.take(ctx); err != nil {
		return err
	}
	c, err := readCatalog(ctx, x.s, []string{name}, false)
	if err != nil {
		return err
	}
	there, ours := c.findObject(name), c.views[name]
	if there != nil && !(ours && there.view) {
		return load.ErrTaken // Invariant 16
	}
	if err := x.showView(ctx, name, query); err != nil {
		return err
	}
	if !ours {
		if err := x.recorder.record(ctx, []load.Change{{Table: name, Action: load.ActionView, Reason: "requested"}}); err != nil {
			return err
		}
	}
	x.ddl = true
	if err := x.s.exec(ctx, "COMMIT"); err != nil {
		return err
	}
	x.finish()
	return nil
}

// showView creates the view. The query is resolved in the file's database, as it is for later readers of the file.
func (x *tx) showView(ctx context.Context, name, query string) (err error) {
	if err := x.s.exec(ctx, "USE db"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.s.exec(ctx, "USE memory")) }()
	return x.s.exec(ctx, "CREATE OR REPLACE VIEW main."+ident(name)+" AS "+query)
}
