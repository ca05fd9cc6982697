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

// Unit is a part of a run, some streams of one source, that one process works on at a time. The cursors in the
// destinations make a unit idempotent, so it may be abandoned and taken over at any moment. Of all units with the same
// pipeline, source and part, at most one has not ended.
type Unit struct {
	ID       int64 // set by AddUnits
	Run      string
	Pipeline string
	Source   string // "" if the pipeline has only one
	Part     string // names the group of streams

	State     UnitState
	Attempt   int    // number of claims
	Broken    int    // number of attempts in a row whose worker disappeared
	Worker    string // the worker that has the unit, or had it last
	NotBefore time.Time
	Started   time.Time // of the last attempt
	Ended     time.Time
	Report    json.RawMessage // result of the last attempt; nil if there is none
}

// A unit fails after MostBroken attempts in a row whose worker disappeared, for example because the worker was killed
// for using too much memory. After SuspectBroken such attempts, a unit is claimed separately, so that it does not break
// the attempts at other units. It then fails after five separate attempts. Where machines come and go all the time, a
// lower number would fail healthy units by chance. // Invariant 15
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
	Run      string  // "" for any
	Pipeline string  // "" for any
	Source   *string // nil for any
	Active   bool    // only units that have not ended
	After    int64   // only units with a greater ID
	Limit    int     // greatest number of units to return; 0 is 1,000
}

// Claim says which units a worker wants.
type Claim struct {
	Worker   string        // its unique name
	For      time.Duration // how long the worker keeps the units without ExtendClaims
	Pipeline string        // only of this pipeline; "" for any
	Run      string        // only of this run; "" for any
	Source   *string       // only of this source; nil for any
	Unit     int64         // only this unit; 0 for any
	Limit    int           // greatest number of units; 0 for all of the source
	Suspect  bool          // true: only one unit, which is suspect; false: only units that are not; see [Unit.Suspect]
}

// ErrTaken is returned if a unit no longer belongs to the worker, because the unit was cancelled or another worker has
// taken it over. The worker must stop working on it.
var ErrTaken = errors.New("unit is no longer this worker's")

// Units manages the units of runs. Times are by the store's clock. Ended units are kept for the last runs of their
// pipeline. For data, the destinations are authoritative, not the units. It is safe for concurrent use.
type Units interface {
	// AddUnits adds waiting units, all or none, and returns them with their IDs. It does not add a unit if one with
	// the same pipeline, source and part has not ended. If the existing unit belongs to the same run, it is returned
	// instead. So adding a run's units twice is safe, also within one call.
	AddUnits(ctx context.Context, units []Unit) ([]Unit, error)
	// ClaimUnits finds the unit that may start and has waited longest. It assigns the worker all units of the same
	// run, pipeline and source that may start, within the limits of the [Claim], and returns them. There may be none.
	// First, each running unit waits again if its worker has sent no sign of life for the duration of its claim. A
	// unit fails after [MostBroken] such attempts in a row.
	ClaimUnits(ctx context.Context, c Claim) ([]Unit, error)
	// ExtendClaims reports that the worker is alive, and extends its claims by d. It returns the IDs of the units that
	// still belong to the worker.
	ExtendClaims(ctx context.Context, worker string, ids []int64, d time.Duration) ([]int64, error)
	// EndAttempts ends the worker's attempts at units. In each unit, State is the outcome, Report the reason, and
	// NotBefore the earliest restart if the unit waits or is parked. A unit stays unchanged if it was cancelled, has
	// a newer Attempt or belongs to another Worker. If there is such a unit, EndAttempts ends the attempts at the
	// others, and returns [ErrTaken], wrapped.
	EndAttempts(ctx context.Context, units []Unit) error
	// CancelUnits ends the selected units that have not ended, and returns their number. A worker learns from
	// ExtendClaims that its unit was cancelled.
	CancelUnits(ctx context.Context, f UnitFilter) (int, error)
	// Units returns the selected units in the order of their IDs, oldest first.
	Units(ctx context.Context, f UnitFilter) ([]Unit, error)
}

// UnitStore is an open store of units.
type UnitStore interface {
	Units
	Close() error
}

// Limits for ended units of a pipeline. Those of its last run are always kept. Those of earlier runs are kept up to
// this number of runs and this number of units. // Invariant 6
const (
	KeptUnitRuns = 20
	KeptUnits    = 50_000
)
