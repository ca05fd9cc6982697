package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

// UnitState is the state of a unit.
type UnitState string

// States of a unit. The last three are final.
const (
	UnitWaiting   UnitState = "waiting"
	UnitRunning   UnitState = "running"
	UnitParked    UnitState = "parked" // waits until NotBefore; its report says why
	UnitDone      UnitState = "done"
	UnitFailed    UnitState = "failed"
	UnitCancelled UnitState = "cancelled"
)

// Ended reports whether the state of the unit is final.
func (s UnitState) Ended() bool { return s == UnitDone || s == UnitFailed || s == UnitCancelled }

// Unit is a part of a run: some streams of one source. One process at a time works on it. A process can stop and start
// the work at any moment, because the cursors in the destinations say where the work continues. There may be many units
// with the same pipeline, source and part, but only one of them may be active, that is, not ended.
type Unit struct {
	ID       int64 // set by AddUnits
	Run      string
	Pipeline string
	Source   string // "" if the pipeline has only one source
	Part     string // names the group of streams
	Planned  int    // number of units that the run was planned with; 0: unknown

	State     UnitState
	Attempt   int    // number of times that the unit was claimed
	Broken    int    // number of attempts in a row whose worker disappeared
	Worker    string // the worker that has claimed the unit, or was the last to claim it
	NotBefore time.Time
	Started   time.Time // start of the last attempt
	Ended     time.Time
	Report    json.RawMessage // result of the last attempt; nil if there is none
}

// A worker can disappear during an attempt. For example, the system may kill it because it uses too much memory. After
// SuspectBroken such attempts in a row, the units of the attempt are suspect: a worker claims some of them without other
// units, then fewer, then only one. So if one of them kills its workers, it no longer breaks the attempts at the others.
// After MostBroken such attempts in a row, the unit fails. MostBroken is large, because some clusters often remove
// machines. With a small limit, healthy units would sometimes fail by chance. // Invariant 15
const (
	MostBroken    = SuspectBroken + 5
	SuspectBroken = 2
)

// Suspect reports whether the unit may be the cause of its workers' disappearance.
func (u Unit) Suspect() bool { return u.Broken >= SuspectBroken }

// suspectsTogether are the numbers of suspect units that are claimed together: first 16, then 4. Usually the machine was
// the cause and not a unit, and a worker completes 111 units much sooner in 7 attempts than in 111.
var suspectsTogether = [...]int{16, 4}

// SuspectsTogether returns how many suspect units are claimed together if they were broken this many times.
func SuspectsTogether(broken int) int {
	if n := broken - SuspectBroken; n < len(suspectsTogether) {
		return suspectsTogether[max(0, n)]
	}
	return 1
}

// DistinctUnits returns units without repetitions. Two units are the same if pipeline, source and part are equal.
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
	Worker   string        // unique name of the worker
	For      time.Duration // how long the worker keeps the units if it does not call ExtendClaims
	Pipeline string        // "" for any
	Run      string        // "" for any
	Source   *string       // nil for any
	Unit     int64         // ID of the unit; 0 for any
	Limit    int           // greatest number of units; 0 for no limit
	Early    bool          // also claim units before their NotBefore
	Suspect  bool          // true: claim only suspect units, as many as [SuspectsTogether] allows; false: claim only other units; see [Unit.Suspect]
}

// ErrTaken is returned if a unit or a slot no longer belongs to this process. Either the unit was canceled, or another
// process has claimed the unit or the slot. This process must stop working on it.
var ErrTaken = errors.New("no longer belongs to this process")

// ErrUnderWay is returned if a run cannot begin, or its units cannot be added, because another run of the pipeline has
// not ended. It wraps [ErrLocked].
var ErrUnderWay = fmt.Errorf("a run of the pipeline has not ended: %w", ErrLocked)

// UnderWay is an [ErrUnderWay] that names the other run.
type UnderWay struct {
	Run   string
	Ended bool // the other run has just ended, so another attempt to begin will succeed
}

// Error implements error.
func (e *UnderWay) Error() string { return ErrUnderWay.Error() + ": " + e.Run }

// Unwrap returns [ErrUnderWay].
func (e *UnderWay) Unwrap() error { return ErrUnderWay }

// Units stores the units of runs. It uses the store's clock. For each pipeline, it keeps the ended units of the last
// runs. It does not decide where a stream continues: only the destinations know what was loaded. Units is safe for
// concurrent use.
type Units interface {
	// AddUnits adds waiting units, all or none, and returns them with their IDs. For each new unit, it looks for an
	// active unit with the same pipeline, source and part. If the active unit belongs to another run, AddUnits adds
	// nothing and returns [ErrUnderWay]. If the active unit belongs to the same run, AddUnits returns the active unit
	// instead of the new unit. So it is safe to add a run's units twice, also within one call. A store that several hosts
	// share is stricter: it returns [ErrUnderWay] if the pipeline has any active unit in another run.
	AddUnits(ctx context.Context, units []Unit) ([]Unit, error)
	// ClaimUnits claims units for a worker and returns them. It finds the unit that has waited longest and may start.
	// Then it claims all units of the same run, pipeline and source that may start, within the limits of c. If no unit
	// may start, it returns none.
	//
	// Before that, ClaimUnits releases the units whose claims have expired. They wait again. If the claims of a unit
	// have expired [MostBroken] times in a row, the unit fails instead.
	ClaimUnits(ctx context.Context, c Claim) ([]Unit, error)
	// ExtendClaims reports that the worker is alive, and extends the worker's claims until the time d from now has passed.
	// It returns the IDs of the units that still belong to the worker. A store that several hosts share does not extend a
	// claim that has expired. A store of one machine extends it if no call of ClaimUnits has released it.
	ExtendClaims(ctx context.Context, worker string, ids []int64, d time.Duration) ([]int64, error)
	// EndAttempts ends the worker's attempts at units. In each unit, State is the outcome and Report the reason. If the
	// unit waits or is parked, it may start again at NotBefore. EndAttempts does not change a unit that was canceled,
	// has a newer Attempt or belongs to another Worker. If there is such a unit, EndAttempts ends the other attempts
	// and returns [ErrTaken], wrapped.
	EndAttempts(ctx context.Context, units []Unit) error
	// CancelUnits ends the selected units that have not ended, and returns their number. ExtendClaims no longer returns
	// the ID of a canceled unit to the unit's worker.
	CancelUnits(ctx context.Context, f UnitFilter) (int, error)
	// Units returns the selected units in the order of their IDs.
	Units(ctx context.Context, f UnitFilter) ([]Unit, error)
}

// UnitStore is an open store of units.
type UnitStore interface {
	Units
	Close() error
}

// Limits for the ended units of a pipeline. The units of its last run are always kept. In addition, the units of
// earlier runs are kept, up to KeptUnitRuns runs and KeptUnits units in total. // Invariant 6
const (
	KeptUnitRuns = 20
	KeptUnits    = 50_000
)
