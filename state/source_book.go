package state

import (
	"context"
	"time"
)

// Sources stores which sources of pipelines are paused, and the outcome of each source's last run. Losing it loses no
// rows, because the cursors are in the destinations. Processes open it briefly to read or write, and close it again.
// It is safe for concurrent use, and writes are durable when a call returns.
type Sources interface {
	// Pause makes runs skip a source until it is resumed.
	Pause(ctx context.Context, source string, p Pause) error
	// Resume ends the pause of a source. It reports whether the source was paused.
	Resume(ctx context.Context, source string) (was bool, err error)
	// Paused returns the paused sources.
	Paused(ctx context.Context) (map[string]Pause, error)
	// Keep records the outcomes of sources. The caller sets Failures to 0 for a complete run, and otherwise to 1. Keep
	// adds up consecutive failures, and keeps the time of the last complete run. A run that is recorded several times
	// counts once.
	Keep(ctx context.Context, records []SourceRecord) error
	// Records returns the outcomes of a pipeline's sources, or those of all pipelines if pipeline is "". They are
	// sorted by pipeline and source.
	Records(ctx context.Context, pipeline string) ([]SourceRecord, error)
	// Close closes the Sources.
	Close() error
}

// SourceRecord is the outcome of one source in a pipeline.
type SourceRecord struct {
	Pipeline string
	Source   string
	Run      string
	Status   string // of its last run, as in a report
	Error    string // why the run was not complete
	At       time.Time
	Complete time.Time // time of the last complete run; zero: never
	Failures int       // number of incomplete runs in a row
	Silent   bool      // the last run was incomplete, and the source did not answer during it
	Rows     int64     // written by its last run
	Requests int
}

// Pause is the start of a source's pause, and its reason.
type Pause struct {
	At  time.Time
	Why string
}
