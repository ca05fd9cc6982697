package open

import (
	"context"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// unavailable replaces a destination that could not be opened. Every method except Close returns the error. So the run
// continues with the other destinations, and reports the error for this one.
type unavailable struct{ err error }

var _ load.Destination = unavailable{}

// Cursor returns why the destination could not be opened.
func (d unavailable) Cursor(context.Context, state.Key) (state.Cursor, error) { return "", d.err }

// Tables returns why the destination could not be opened.
func (d unavailable) Tables(context.Context, string) ([]schemas.Table, error) { return nil, d.err }

// Begin returns why the destination could not be opened.
func (d unavailable) Begin(context.Context, state.Key, state.Cursor, load.Pass) (load.Tx, error) {
	return nil, d.err
}

// Scan returns why the destination could not be opened.
func (d unavailable) Scan(context.Context, string, []string, func(arrow.RecordBatch) error) error {
	return d.err
}

// StreamState returns why the destination could not be opened.
func (d unavailable) StreamState(context.Context, state.Key, string) (load.StreamState, error) {
	return load.StreamState{}, d.err
}

// Accept returns why the destination could not be opened.
func (d unavailable) Accept(context.Context, string) ([]load.Change, error) { return nil, d.err }

// Close does nothing.
func (d unavailable) Close() error { return nil }
