package state

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// UnitState is the state of a unit.
type UnitState string

// A unit waits, possibly until a given time, runs, and ends in one of three ways.
const (
	UnitWaiting   UnitState = "waiting"
	UnitRunning   UnitState = "running"
	UnitParked    UnitState = "parked" // waits until NotBefore, for the reason in its report
	UnitDone      UnitState = "done"
	UnitFailed    UnitState = "failed"
	UnitCancelled UnitState = "cancelled"
)

// Ended reports whether the state of the unit is final.
func (s UnitState) Ended() bool { return s == UnitDone || s == UnitFailed || s == UnitCancelled }

// Unit is a part of a run that one process works on at a time: some streams of one source. Its cursors, stored in the
// destinations, make it idempotent: it may be abandoned and taken over at any moment. At most one unit with the same
// pipeline, source and part has not ended.
type Unit struct {
	ID       int64 // set by AddUnits
	Run      string
	Pipeline string
	Source   string // "" if the pipeline has only one
	Part     string // names the group of streams

	State     UnitState
	Attempt   int    // number of claims
	Broken    int    // number of attempts in a row whose worker disappeared
	Worker    string // the worker that has it or had it last
	NotBefore time.Time
	Started   time.Time // of the last attempt
	Ended     time.Time
	Report    json.RawMessage // result of the last attempt; nil if there is none
}

// A unit fails after MostBroken attempts in a row whose worker disappeared, for example because it was killed for
// using too much memory. From SuspectBroken on, a unit is claimed separately from others, so that it takes none of
// them with it. Five attempts that are claimed separately are required: where machines come and go all the time,
// fewer would fail healthy units by chance. // Invariant 15
const (
	MostBroken    = SuspectBroken + 5
	SuspectBroken = 2
)

// Suspect reports whether the unit may be the cause of its workers' death.
func (u Unit) Suspect() bool { return u.Broken >= SuspectBroken }

// DistinctUnits returns units without repetitions of the same pipeline, source and part.
func DistinctUnits(units []Unit) []Unit {
	seen := make(map[[3]string]bool, len(units))
	return slices.DeleteFunc(slices.Clone(units), func(u Unit) bool {
		k := [3]string{u.Pipeline, u.Source, u.Part}
		was := seen[k]
		seen[k] = true
		return was
	})
}

// UnitFilter selects units. The zero value selects all.
type UnitFilter struct {
	Run      string // "" for any; the same for the others
	Pipeline string
	Source   *string
	Active   bool  // only units that have not ended
	After    int64 // only units with a greater ID
	Limit    int   // greatest number of units to return; 0 is 1,000
}

// Claim says which units a worker wants.
type Claim struct {
	Worker   string        // its unique name
	For      time.Duration // how long the worker keeps the units without BeatUnits
	Pipeline string        // only of this pipeline; "" for any
	Run      string        // only of this run; "" for any
	Source   *string       // only of this source; nil for any
	Unit     int64         // only this unit; 0 for any
	Limit    int           // greatest number; 0 for all of the source
	Suspect  bool          // a suspect unit instead of others; see [Unit.Suspect]
}

// ErrTaken is returned if a unit no longer belongs to the worker: it was cancelled, or another worker has taken it
// over. The worker must stop working on it.
var ErrTaken = errors.New("unit is no longer this worker's")

// Units manages the units of runs. Times are by the store's clock. Ended units are kept for the last runs of their
// pipeline. For data, the destinations are authoritative, not the units. It is safe for concurrent use.
type Units interface {
	// AddUnits adds waiting units, all or none, and returns them with their IDs. If a unit with the same pipeline,
	// source and part is active, it is left out if it belongs to another run, and returned as it is if it belongs to
	// the same run: adding a run's units twice is safe, also within one call.
	AddUnits(ctx context.Context, units []Unit) ([]Unit, error)
	// ClaimUnits assigns the worker the units of the source that has waited longest and may start. They belong to one
	// run, pipeline and source; there may be none. A running unit becomes waiting again if its worker has sent no
	// sign of life for the duration of its claim, and fails after [MostBroken] such attempts in a row.
	ClaimUnits(ctx context.Context, c Claim) ([]Unit, error)
	// BeatUnits reports that the worker is alive, and extends its claims by d. It returns the IDs of the units that
	// still belong to the worker.
	BeatUnits(ctx context.Context, worker string, ids []int64, d time.Duration) ([]int64, error)
	// SettleUnits ends the worker's attempts at units. State is the outcome of each, Report the reason, and NotBefore
	// the earliest restart of one that waits or is parked. It returns [ErrTaken], wrapped, if a unit has a newer
	// Attempt or does not belong to Worker: such a unit is unchanged, and the others are settled.
	SettleUnits(ctx context.Context, units []Unit) error
	// CancelUnits ends the active units of f, and returns their number. A worker that has one learns it from
	// BeatUnits.
	CancelUnits(ctx context.Context, f UnitFilter) (int, error)
	// Units returns units by ID, oldest first.
	Units(ctx context.Context, f UnitFilter) ([]Unit, error)
}

// Ledger is an open store of units.
type Ledger interface {
	Units
	Close() error
}

// Limits for ended units of a pipeline: those of its last run are kept, and those of the runs before while they are
// few. // Invariant 6
const (
	KeptUnitRuns = 20
	KeptUnits    = 50_000
)
