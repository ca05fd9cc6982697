package load

import (
	"context"
	"errors"
)

// Viewer is implemented by destinations that can hold views.
type Viewer interface {
	// Schema is the schema that the query of a view names tables with; "" where
	// they need none.
	Schema() string

	// View makes a view of one SELECT over the destination's tables, or makes
	// it anew, and records that as [ActionView]. It returns [ErrTaken]
	// (wrapped), and touches nothing, where something of that name is there
	// which penstock has not made. // Invariant 16
	View(ctx context.Context, name, query string) error
}

// ErrTaken is returned by a [Viewer] for a name that belongs to something else.
var ErrTaken = errors.New("the name is taken by something that penstock has not made")
