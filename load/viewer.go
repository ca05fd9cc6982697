package load

import (
	"context"
	"errors"
)

// Viewer is implemented by destinations that can hold views.
type Viewer interface {
	// Schema returns the schema name for tables in a view's query, or "" if none is needed.
	Schema() string

	// View creates or replaces a view, and records it as [ActionView]. The query is one SELECT over the destination's
	// tables. If something that penstock did not create has the name, View changes nothing and returns [ErrTaken]
	// (wrapped). Invariant 16
	View(ctx context.Context, name, query string) error
}

// ErrTaken is returned by a [Viewer] for a name that belongs to something that penstock did not create.
var ErrTaken = errors.New("the name is taken by something that penstock did not create")
