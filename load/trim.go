package load

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Trimmer is implemented by destinations that can remove old rows of penstock's own tables.
type Trimmer interface {
	// Trim removes rows that are older than the given times:
	//   - certificates of the pipeline, except the newest certificate of each stream
	//   - runs of the pipeline that have ended, except the runs of these newest certificates
	//   - resolved rejects of the pipeline
	//   - row changes of the pipeline
	//   - results of checks of the pipeline
	//   - webhook events of the source
	//   - notes about the source (rows of [Changes] with [ActionDrift]) that concern the given tables or their child
	//     tables
	//
	// All other rows of Changes stay, because they say how the tables were made. Open and accepted rejects stay too.
	//
	// If several sources share the tables, Trim removes the rows of all sources of the pipeline. A destination that keeps
	// the rows of each source in files of their own removes only the rows of r.Source.
	//
	// Each source of a pipeline may call Trim on the same day. So Trim removes the rows of each pipeline, source and table
	// only once per day in UTC. See [TrimDays].
	//
	// An SQL database commits each few thousand rows, so that others need not wait for long. It removes a run before the
	// row changes of the run. If it fails, the next call removes the other rows.
	//
	// Cursors stay as they are. A transaction that began before Trim can still commit. There is one exception: a Parquet
	// lake in a bucket without a catalog refuses the transaction of another process that has already written its files
	// ([state.ErrMoved]). After an error, the result counts the rows that were removed before the error.
	Trim(ctx context.Context, r Retention) (Trimmed, error)
}

// Retention says which old rows [Trimmer].Trim removes.
type Retention struct {
	Pipeline     string
	Source       string
	Tables       []string  // tables of the run's streams, without child tables
	Before       time.Time // older rows are removed
	EventsBefore time.Time // older events of the source are removed; zero: no events
	Now          time.Time // the current time, by the clock of the state
}

// Trimmed says how many rows were removed.
type Trimmed struct {
	Certificates int64 `json:"certificates"`
	Runs         int64 `json:"runs"`
	Rejects      int64 `json:"rejects"`
	RowChanges   int64 `json:"changes"`
	Checks       int64 `json:"checks,omitempty"`
	Events       int64 `json:"events"`
	Notes        int64 `json:"notes"`
}

// TrimDays remembers for which pipelines, sources and tables a process has removed old rows, and on which day. Its
// methods may be called concurrently. The zero value remembers nothing.
type TrimDays struct {
	mu   sync.Mutex
	days map[string]time.Time // the key names a pipeline, the events of a source, or the notes about a table
}

// Due returns the part of r for which no rows were removed on this day. In the result, EventsBefore is zero if the
// events are not due, and Tables has only the tables whose notes are due. The result whole reports whether the rows of
// the pipeline are due. The result due is false if nothing is due.
func (d *TrimDays) Due(r Retention) (left Retention, whole, due bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	day := trimDay(r)
	done := func(key string) bool { return d.days[key].Equal(day) }
	whole = !done(r.Pipeline)
	if done(eventsOf(r.Source)) {
		r.EventsBefore = time.Time{}
	}
	r.Tables = slices.DeleteFunc(slices.Clone(r.Tables), func(t string) bool { return done(notesOf(r.Pipeline, t)) })
	return r, whole, whole || !r.EventsBefore.IsZero() || len(r.Tables) > 0
}

// Done records that the rows that r describes were removed.
func (d *TrimDays) Done(r Retention) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.days == nil {
		d.days = map[string]time.Time{}
	}
	day := trimDay(r)
	d.days[r.Pipeline] = day
	if !r.EventsBefore.IsZero() {
		d.days[eventsOf(r.Source)] = day
	}
	for _, table := range r.Tables {
		d.days[notesOf(r.Pipeline, table)] = day
	}
}

func trimDay(r Retention) time.Time { return r.Before.UTC().Truncate(24 * time.Hour) }

// eventsOf and notesOf return keys of TrimDays. These keys differ from the names of pipelines.
func eventsOf(source string) string         { return "\x00" + source }
func notesOf(pipeline, table string) string { return pipeline + "\x00" + table }
