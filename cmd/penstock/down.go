package main

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// down stands for a destination that could not be opened, so that a run goes on
// with the others and says of this one why. It fails whatever is asked of it.
type down struct{ err error }

var _ load.Destination = down{}

// Cursor returns why the destination could not be opened.
func (d down) Cursor(context.Context, state.Key) (state.Cursor, error) { return "", d.err }

// Tables does as well.
func (d down) Tables(context.Context, string) ([]schemas.Table, error) { return nil, d.err }

// Begin does as well.
func (d down) Begin(context.Context, state.Key, state.Cursor, load.Pass) (load.Tx, error) {
	return nil, d.err
}

// Scan does as well.
func (d down) Scan(context.Context, string, []string, func(arrow.RecordBatch) error) error {
	return d.err
}

// Standing does as well.
func (d down) Standing(context.Context, state.Key, string) (load.StreamState, error) {
	return load.StreamState{}, d.err
}

// Accept does as well.
func (d down) Accept(context.Context, string) ([]load.Change, error) { return nil, d.err }

// Close has nothing to close.
func (d down) Close() error { return nil }
