package serve

import (
	"context"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve/schedule"
)

// Trigger is why a run began.
type Trigger string

// The triggers.
const (
	TriggerSchedule Trigger = "schedule" // its slot is due
	TriggerCatchUp  Trigger = "catch_up" // its slot was missed
	TriggerResume   Trigger = "resume"   // the process ended during the run
	TriggerManual   Trigger = "manual"   // requested by a person
	TriggerRetry    Trigger = "retry"    // a person requested a retry of streams
	TriggerRefresh  Trigger = "refresh"  // a webhook reports that the streams have changed
)

// Skip is why a slot was not run: the cause in its journal record.
type Skip string

// The causes.
const (
	SkipPaused  Skip = "paused"     // a person paused the schedule
	SkipMadeUp  Skip = "made up"    // the run of a later slot covers it
	SkipLocked  Skip = "locked"     // another process was running the pipeline
	SkipMissed  Skip = "missed"     // the daemon was not running, and no other run covers it
	SkipOverlap Skip = "still busy" // the previous run had not ended
)

// Missed reports whether the slot was skipped unintentionally: its run was due, but did not take place.
func (s Skip) Missed() bool { return s == SkipMissed || s == SkipOverlap }

// CatchUp is what happens to slots that became due while the daemon was not running.
type CatchUp string

const (
	CatchUpOnce CatchUp = "once" // the newest is run, the others are recorded as skipped
	CatchUpAll  CatchUp = "all"  // each is run, one after the other
	CatchUpNone CatchUp = "none" // all are recorded as skipped
)

// Plan says when a pipeline runs automatically.
type Plan struct {
	schedule.Schedule               // the zero Schedule: never
	CatchUp           CatchUp       // "": CatchUpOnce
	Jitter            time.Duration // maximum random delay of a slot's run, see [schedule.Jitter]
	Deadline          time.Duration // a run is stopped after this time, and can be resumed; 0: never
}

// RunRequest is a request for a run.
type RunRequest struct {
	Run      string // id of the run, from pipeline.NewRunID
	Trigger  Trigger
	Streams  []string // patterns as in the configuration; nil: all
	Options  pipeline.Options
	Progress func(pipeline.Event) // called from many goroutines; must not block
	Rates    func(func() []Rate)  // Run calls it once the source is open, with a function that returns the source's request budgets
}

// Deltas is the result of one application of webhook events.
type Deltas struct {
	Applied    int           // events committed by this application
	Waiting    int           // verified events that still wait
	Oldest     time.Time     // when the oldest waiting event was received; zero: none waits
	Refresh    []string      // streams that a run must read soon, because their records cannot be read one by one
	ApplyAfter time.Duration // time after which to apply again even without new events; 0: at the next event
	Unmapped   int           // events of a type that no stream handles
	Dead       int           // events moved to the dead letters

	Lags []time.Duration // for each record that is now in every destination: the time since its first event was received
}

// Pipeline is one pipeline of the daemon. The caller of New provides the functions that run the pipeline,
// and the daemon decides when to call them.
type Pipeline struct {
	Name         string
	Sources      []string
	Destinations []string
	Streams      []string // names, in the order they are read
	Plan         Plan

	// Run performs one run and returns when all of its work has ended. It takes the pipeline's lock
	// in the state folder; [state.ErrLocked] means that another process runs the pipeline. Runs of
	// one pipeline never overlap.
	Run func(ctx context.Context, o RunRequest) (pipeline.Report, error)

	// Planned means that Run can continue a run that another process began. The run then keeps its id, and
	// Run returns when the whole run has ended.
	Planned bool

	// Deltas applies the events that have arrived and are ready, and returns. It may be nil. It is called
	// some time after an event arrives. Calls of Deltas do not overlap each other. They do not overlap a
	// call of Run either, unless Concurrent is set.
	Deltas     func(ctx context.Context) (Deltas, error)
	Concurrent bool   // Deltas and Run may run at the same time, because they coordinate their commits
	Close      func() // called after the last call of Deltas; may be nil

	// Hinted has the streams to read when an unverified delivery arrives, by source, parents before
	// their children; see [Daemon.Hinted]. It is usually empty.
	Hinted map[string][]string
}
