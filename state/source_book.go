package state

import (
	"context"
	"time"
)

// Sources is what is kept of the sources of pipelines: which are paused, and what
// became of each the last time. No row depends on it: the destinations say how far
// each source has come. Whoever runs sources opens it for moments, reads or
// writes, and closes it again. It is safe for concurrent use; what is written is
// durable when a call returns.
type Sources interface {
	// Pause has runs leave a source out, until it is resumed.
	Pause(ctx context.Context, source string, p Pause) error
	// Resume has runs take a source up again. It reports whether it was paused.
	Resume(ctx context.Context, source string) (was bool, err error)
	// Paused are the sources that are paused.
	Paused(ctx context.Context) (map[string]Pause, error)
	// Keep records what became of sources. Of each record Failures is 0 where the run
	// was complete, else 1; those in a row, and when one was complete, are counted on,
	// and a run that is recorded several times counts once.
	Keep(ctx context.Context, records []SourceRecord) error
	// Records are what became of the sources of a pipeline, by source; of all
	// pipelines where it has no name, by pipeline and source.
	Records(ctx context.Context, pipeline string) ([]SourceRecord, error)
	// Close gives it up.
	Close() error
}

// SourceRecord is what became of one source in a pipeline.
type SourceRecord struct {
	Pipeline string
	Source   string
	Run      string
	Status   string // of its last run, as a report has it
	Error    string // why it was not complete
	At       time.Time
	Complete time.Time // when it last was complete; zero: never
	Failures int       // runs in a row that were not
	Silent   bool      // its last run was not, and the source gave no answer in it
	Rows     int64     // written by its last run
	Requests int
}

// Pause is since when a source is paused, and why.
type Pause struct {
	At  time.Time
	Why string
}
