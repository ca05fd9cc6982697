package serve

import (
	"context"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve/schedule"
)

// Trigger is why a run began.
type Trigger string

// What begins a run.
const (
	TriggerSchedule Trigger = "schedule" // its slot came
	TriggerCatchUp  Trigger = "catch_up" // a slot that nobody was there for
	TriggerResume   Trigger = "resume"   // the process ended in the middle of it
	TriggerManual   Trigger = "manual"   // somebody asked for it
	TriggerRetry    Trigger = "retry"    // somebody asked for what failed, again
	TriggerRefresh  Trigger = "refresh"  // a webhook says that its streams have changed
)

// Skip is why a slot was not run, in a word: the cause of a record that says
// skipped.
type Skip string

// What keeps a slot from being run.
const (
	SkipPaused  Skip = "paused"     // somebody wants it so
	SkipMadeUp  Skip = "made up"    // the run of a later slot does for it
	SkipLocked  Skip = "locked"     // another process ran the pipeline just then
	SkipMissed  Skip = "missed"     // nobody was there, and nothing makes up for it
	SkipOverlap Skip = "still busy" // the run before had not ended
)

// Missed reports whether nobody wanted the slot to be skipped: its schedule was
// not kept.
func (s Skip) Missed() bool { return s == SkipMissed || s == SkipOverlap }

// CatchUp is what becomes of slots that nobody was there for.
type CatchUp string

// What becomes of missed slots.
const (
	CatchUpOnce CatchUp = "once" // the newest is run, the others are recorded as skipped
	CatchUpAll  CatchUp = "all"  // each is run, one after the other
	CatchUpNone CatchUp = "none" // all are recorded as skipped
)

// Plan is when a pipeline runs by itself.
type Plan struct {
	schedule.Schedule               // the zero Schedule: never by itself
	CatchUp           CatchUp       // "": CatchUpOnce
	Jitter            time.Duration // a slot's run starts up to so much later, see [schedule.Jitter]
	Deadline          time.Duration // of one run, which is stopped then and can be resumed; 0: none
}

// Order is one run that is to be made.
type Order struct {
	Run      string // its id, as of pipeline.NewRunID
	Trigger  Trigger
	Streams  []string // patterns as of a configuration; nil: all of the pipeline
	Options  pipeline.Options
	Progress func(pipeline.Event) // called from many goroutines; must not block
	Rates    func(func() []Rate)  // to be given, once its source is open, what tells its budget of requests
}

// Deltas is what one application of webhook events has come to.
type Deltas struct {
	Applied  int           // events that are committed now
	Behind   int           // verified events that wait still
	Oldest   time.Time     // when the oldest of these was received; zero: none waits
	Refresh  []string      // streams that an ordinary run is to read soon: nothing gives their records one by one
	Again    time.Duration // call again after so long although nothing may come; 0: when something comes
	Unmapped int           // events of a type that no stream is for
	Dead     int           // events given up and set aside

	Lags []time.Duration // of the records that are in every destination now: since the first event about each was received
}

// Pipeline is one pipeline of the daemon. Whoever wires the daemon says how it
// is run; the daemon says when.
type Pipeline struct {
	Name         string
	Sources      []string
	Destinations []string
	Streams      []string // names, in the order they are read
	Plan         Plan

	// Run makes one run and returns when nothing of it is under way. It takes the
	// pipeline's lock of the state folder: an error that is [state.ErrLocked] says
	// that another process runs the pipeline. Runs of one pipeline never overlap.
	Run func(ctx context.Context, o Order) (pipeline.Report, error)

	// Planned says that a run which another process has begun goes on under its id:
	// Run then waits for what is left of it.
	Planned bool

	// Deltas applies the events that its sources have sent since, as far as they
	// have come to rest, and returns. It may be nil. It is called some time after an
	// event came, one call at a time, and never while Run is under way unless
	// Beside is set.
	Deltas func(ctx context.Context) (Deltas, error)
	Beside bool   // Deltas and Run can be under way together: they agree about each commit
	Close  func() // called once Deltas is not called any more; may be nil

	// Hinted are the streams to be read, each after its parents, when a delivery
	// of a source came that could not be verified; see [Daemon.Hinted]. Usually none.
	Hinted map[string][]string
}
