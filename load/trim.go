package load

import (
	"context"
	"time"
)

// Trimmer is implemented by destinations that can remove old rows of penstock's own tables.
type Trimmer interface {
	// Trim removes rows that are older than the given times:
	//   - certificates of the pipeline, except the newest certificate of each stream
	//   - runs of the pipeline that have ended, except the runs of these newest certificates
	//   - resolved rejects of the pipeline
	//   - row changes of the pipeline
	//   - webhook events of the source
	//   - notes about the source (rows of [Changes] with [ActionDrift]) that concern the given tables or their child
	//     tables
	//
	// All other rows of Changes stay, because they say how the tables were made. Open and accepted rejects stay too.
	//
	// Trim removes the rows of all sources of the pipeline. Several sources may share the tables, and each may call Trim
	// on the same day. So Trim removes the rows of each pipeline, source and table only once per day in UTC.
	Trim(ctx context.Context, r Retention) (Trimmed, error)
}

// Retention says which old rows [Trimmer].Trim removes.
type Retention struct {
	Pipeline     string
	Source       string
	Tables       []string  // tables of the run's streams, without child tables
	Before       time.Time // older rows are removed
	EventsBefore time.Time // older events of the source are removed; zero: no events
}

// Trimmed says how many rows were removed.
type Trimmed struct {
	Certificates int64 `json:"certificates"`
	Runs         int64 `json:"runs"`
	Rejects      int64 `json:"rejects"`
	RowChanges   int64 `json:"changes"`
	Events       int64 `json:"events"`
	Notes        int64 `json:"notes"`
}
