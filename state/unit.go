package state

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// UnitState is what has become of a unit.
type UnitState string

// A unit waits, perhaps until a time, runs, and ends in one of three ways.
const (
	UnitWaiting   UnitState = "waiting"
	UnitRunning   UnitState = "running"
	UnitParked    UnitState = "parked" // waits until NotBefore, for a reason that its report tells
	UnitDone      UnitState = "done"
	UnitFailed    UnitState = "failed"
	UnitCancelled UnitState = "cancelled"
)

// Ended reports whether nothing more becomes of a unit.
func (s UnitState) Ended() bool { return s == UnitDone || s == UnitFailed || s == UnitCancelled }

// Unit is a part of a run that one process works on at a time: some streams of
// one source. Its cursors, which are in the destinations, make it idempotent: it
// may be given up and taken over at any moment. Of the same pipeline, source and
// part there is one at most that has not ended.
type Unit struct {
	ID       int64 // given by AddUnits
	Run      string
	Pipeline string
	Source   string // "" where the pipeline has one
	Part     string // names the streams

	State     UnitState
	Attempt   int    // times it was claimed
	Broken    int    // attempts in a row that have ended without a word
	Worker    string // who has it, or had it last
	NotBefore time.Time
	Started   time.Time // of the last attempt
	Ended     time.Time
	Report    json.RawMessage // what the last attempt has to tell; nil for nothing
}

// A unit of which MostBroken attempts in a row have ended without a word, as when
// its worker is killed for the memory that it takes, has failed. From SuspectBroken
// on it is claimed apart from others, so that it takes none of them with it. Only
// what it does apart tells against it, and five times of that: where machines come
// and go all the time, fewer would fail sound units by chance. // Invariant 15
const (
	MostBroken    = SuspectBroken + 5
	SuspectBroken = 2
)

// Suspect reports whether a unit may be what ends its worker.
func (u Unit) Suspect() bool { return u.Broken >= SuspectBroken }

// DistinctUnits are units without those that are in it already, by pipeline, source
// and part.
func DistinctUnits(units []Unit) []Unit {
	seen := make(map[[3]string]bool, len(units))
	return slices.DeleteFunc(slices.Clone(units), func(u Unit) bool {
		k := [3]string{u.Pipeline, u.Source, u.Part}
		was := seen[k]
		seen[k] = true
		return was
	})
}

// UnitFilter says which units are meant; the zero value means all.
type UnitFilter struct {
	Run      string // "" for any, as are the others
	Pipeline string
	Source   *string
	Active   bool  // only those that have not ended
	After    int64 // only those with a greater ID
	Limit    int   // Units returns so many at most; 0 is 1,000
}

// Claim says what a worker takes.
type Claim struct {
	Worker   string        // its name, unlike that of any other
	For      time.Duration // until when they are its own, unless BeatUnits says that it lives
	Pipeline string        // only of this one; "" for any
	Run      string        // ditto
	Source   *string       // ditto; nil for any
	Unit     int64         // only this one; 0 for any
	Limit    int           // so many at most; 0 for all of the source
	Suspect  bool          // one that may be what ends its worker, instead of those that are not
}

// ErrTaken is returned where a unit is no longer the worker's: it was cancelled,
// or another has taken it over. What the worker does for it must stop.
var ErrTaken = errors.New("unit is no longer this worker's")

// Units are what runs are made of. Times are by the store's own clock. Ended units
// are kept for the last runs of their pipeline. They are no authority on data: that
// is each destination. It is safe for concurrent use.
type Units interface {
	// AddUnits adds units that wait, all of them or none, and returns those it has
	// added, with their IDs: one whose pipeline, source and part are active already is
	// left out if it is of another run, and returned as it is if it is of the same: to
	// add a run's units twice is fine, in one call too.
	AddUnits(ctx context.Context, units []Unit) ([]Unit, error)
	// ClaimUnits makes the worker's own those of the longest waiting source that may
	// be begun: units of one run, pipeline and source, none where there are none. A
	// unit that runs waits again once its worker has given no sign of life for as long
	// as it had claimed it, and has failed after [MostBroken] such attempts in a row.
	ClaimUnits(ctx context.Context, c Claim) ([]Unit, error)
	// BeatUnits says that the worker lives and has its units for so long again. It
	// returns the IDs of those that are still its own.
	BeatUnits(ctx context.Context, worker string, ids []int64, d time.Duration) ([]int64, error)
	// SettleUnits ends the worker's attempts at units: State says what has become of
	// each, Report why, and NotBefore when one that waits or is parked may be begun
	// again. It returns [ErrTaken], wrapped, if of one Attempt is not the last or it is
	// not Worker's: that one stays as it is, and the others are settled.
	SettleUnits(ctx context.Context, units []Unit) error
	// CancelUnits ends those of f that have not ended, and returns how many. A worker
	// that has one learns it with BeatUnits.
	CancelUnits(ctx context.Context, f UnitFilter) (int, error)
	// Units returns units by ID, the oldest first.
	Units(ctx context.Context, f UnitFilter) ([]Unit, error)
}

// Ledger is where units are kept.
type Ledger interface {
	Units
	Close() error
}

// What a ledger keeps of the units of a pipeline that have ended: those of its last
// run, and of the runs before as far as they are few. // Invariant 6
const (
	KeptUnitRuns = 20
	KeptUnits    = 50_000
)
