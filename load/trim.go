package load

import (
	"context"
	"time"
)

// Trimmer is implemented by destinations that can remove old rows of penstock's own tables.
type Trimmer interface {
	// Trim removes the certificates of a pipeline that are older than a time, except the newest of each stream. It also
	// removes the notes about the source (rows of [Changes] with [ActionDrift]) that are older and concern the named
	// tables or their child tables. All other rows of Changes stay, because they say how the tables were made.
	//
	// It removes the rows of all sources. Several sources may share the tables, and each may call Trim on the same day. So
	// for each day in UTC, Trim removes the certificates of a pipeline once, and the notes about a table once.
	Trim(ctx context.Context, pipeline string, tables []string, before time.Time) (Trimmed, error)
}

// Trimmed says how many rows were removed.
type Trimmed struct {
	Certificates int64 `json:"certificates"`
	Notes        int64 `json:"notes"`
}
