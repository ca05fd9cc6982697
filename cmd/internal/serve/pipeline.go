package serve

import (
	"context"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve/schedule"
	"github.com/penstock-data/penstock/state"
)

// Trigger says why a run began.
type Trigger string

// The triggers.
const (
	TriggerSchedule Trigger = "schedule" // its slot was due
	TriggerCatchUp  Trigger = "catch_up" // its slot was missed
	TriggerResume   Trigger = "resume"   // the process ended during the run
	TriggerManual   Trigger = "manual"   // requested by a person
	TriggerRetry    Trigger = "retry"    // a person requested a retry of streams
	TriggerRefresh  Trigger = "refresh"  // because of a webhook
)

// Skip says why a slot was not run. The journal stores it as the cause.
type Skip string

// The causes.
const (
	SkipPaused  Skip = state.CausePaused  // a person paused the schedule
	SkipMadeUp  Skip = "made up"          // the run of a later slot does this slot's work
	SkipLocked  Skip = "locked"           // another process was running the pipeline
	SkipMissed  Skip = "missed"           // the daemon was not running, and no other run does this slot's work
	SkipOverlap Skip = state.CauseOverlap // the previous run had not ended
)

// Missed reports whether the slot should have run but did not.
func (s Skip) Missed() bool { return s == SkipMissed || s == SkipOverlap }

// CatchUp says what happens to slots that were due while the daemon was not running.
type CatchUp string

const (
	CatchUpOnce CatchUp = "once" // the newest slot is run, the others are recorded as skipped
	CatchUpAll  CatchUp = "all"  // each slot is run, one after the other
	CatchUpNone CatchUp = "none" // all slots are recorded as skipped
)

// Plan says when the daemon runs a pipeline without a request of a person.
type Plan struct {
	schedule.Schedule               // the zero Schedule: never
	CatchUp           CatchUp       // "": CatchUpOnce
	Jitter            time.Duration // maximum delay between a slot and its run, see [schedule.Jitter]
	Deadline          time.Duration // a run is stopped after this time, and can be resumed; 0: never
}

// RunRequest is a request for a run.
type RunRequest struct {
	Run      string // id of the run, from runid.New
	Trigger  Trigger
	Streams  []string // patterns as in the configuration; nil: all
	Options  pipeline.Options
	Progress func(pipeline.Event) // called from many goroutines; must not block
	Rates    func(func() []Rate)  // Run calls it when the source is open; the argument is a function that returns the source's request budgets
}

// Deltas is the result of applying webhook events once.
type Deltas struct {
	Applied    int           // events that were committed
	Waiting    int           // verified events that are not applied yet
	Oldest     time.Time     // when the oldest waiting event was received; zero: none waits
	Refresh    []string      // streams that a run must read soon, because the source cannot return single records
	ApplyAfter time.Duration // time after which to apply again, even without new events; 0: at the next event
	Unmapped   int           // events of a type that no stream handles
	Dead       int           // events moved to the dead letters

	Lags []time.Duration // one per record that is now in every destination: the time since its first event was received
}

// Pipeline is one pipeline of the daemon. Its functions run the pipeline. The daemon decides when to call them.
type Pipeline struct {
	Name         string
	Sources      []string
	Destinations []string
	Streams      []string // names, in the order they are read
	Plan         Plan

	// Run performs one run, and returns when all of its work has ended. It takes the lock of the pipeline in the
	// state; [state.ErrLocked] means that another process runs the pipeline. Calls of Run do not overlap.
	Run func(ctx context.Context, o RunRequest) (pipeline.Report, error)

	// Planned means that Run can continue a run that another process has begun. The run keeps its id. Run returns
	// when the whole run has ended.
	Planned bool

	// Await waits until all work of a run has ended, or until ctx ends. It also ends work that no process can do any
	// more. Await may be nil. The daemon calls it if a run of this pipeline cannot begin because the run of another
	// process is still under way. If that process was killed, perhaps no other process would end its run.
	Await func(ctx context.Context, run string)

	// Deltas applies the events that have arrived and are ready. It may be nil. The daemon calls it soon after an event
	// arrives. Calls of Deltas do not overlap each other. Unless Concurrent is set, they do not overlap calls of Run
	// either. The argument refused lists streams that an earlier result listed in [Deltas].Refresh, but whose run could
	// not begin because another run was under way. The daemon requests their run again.
	Deltas     func(ctx context.Context, refused []string) (Deltas, error)
	Concurrent bool   // Deltas and Run may run at the same time, because they coordinate their commits
	Close      func() // called after the last call of Deltas; may be nil

	// Hinted lists, for each source, the streams to read when an unverified delivery arrives. Parents come before their
	// children. The map is usually empty; see [Daemon.Hinted].
	Hinted map[string][]string
}
