package state

import (
	"context"
	"time"
)

// OutcomeAge is how long the last outcome of a source is kept, if no run reads the source any more. // Invariant 6
const OutcomeAge = 400 * 24 * time.Hour

// OldOutcomes returns the time before which [Sources].Keep deletes outcomes. It is the zero time if there are no
// records.
func OldOutcomes(records []SourceRecord) (before time.Time) {
	for _, r := range records {
		if old := r.At.Add(-OutcomeAge); old.After(before) {
			before = old
		}
	}
	return before
}

// Sources stores which sources are paused, and the outcome of each source's last run. The cursors are in the
// destinations, so no rows are lost if this state is lost. Processes open a Sources only for a short time, to read or
// write. A Sources is safe for concurrent use. When a call returns, its changes are durable.
type Sources interface {
	// Pause records that runs skip a source until Resume is called.
	Pause(ctx context.Context, source string, p Pause) error
	// Resume ends the pause of a source. It reports whether the source was paused.
	Resume(ctx context.Context, source string) (wasPaused bool, err error)
	// Paused returns the paused sources.
	Paused(ctx context.Context) (map[string]Pause, error)
	// Keep records the outcomes of sources. In each record, the caller sets Failures to 0 for a complete run, and to 1
	// for any other run. Keep itself counts the incomplete runs in a row, and stores the number in Failures. It also
	// stores the time of the last complete run in Complete. If the same run is recorded several times, it counts once.
	// It deletes outcomes that are older than these by more than [OutcomeAge].
	Keep(ctx context.Context, records []SourceRecord) error
	// Records returns the outcomes of a pipeline's sources, sorted by pipeline and source. If pipeline is "", it
	// returns the outcomes of all pipelines.
	Records(ctx context.Context, pipeline string) ([]SourceRecord, error)
	// Close closes the Sources.
	Close() error
}

// SourceRecord is the outcome of one source in a pipeline.
type SourceRecord struct {
	Pipeline string
	Source   string
	Run      string
	Status   string // status of the last run, as in its report
	Error    string // why the last run was incomplete
	At       time.Time
	Complete time.Time // time of the last complete run; zero: never
	Failures int       // number of incomplete runs in a row
	Silent   bool      // the last run was incomplete, and the source never answered
	Rows     int64     // number of rows that the last run wrote
	Requests int
}

// Pause records when and why a source was paused.
type Pause struct {
	At  time.Time
	Why string
}
