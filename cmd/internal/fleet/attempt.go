package fleet

import (
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// Attempt is one attempt at units that were claimed together. As soon as all streams of a unit are complete, the unit
// is settled: its state and its report are stored, even while other units are still being read. If another worker takes
// over the attempt, it does not read a settled unit again. Checks of the data run after the last stream, so a unit with
// such checks is settled at the end of the attempt. Then its report has their results. An Attempt is safe for concurrent use.
type Attempt struct {
	redact       func(string) string
	settle       func(...state.Unit)
	now          func() time.Time
	began        time.Time
	destinations int

	mu       sync.Mutex
	left     []state.Unit
	ends     map[string][]pipeline.StreamReport
	requests int // requests that the settled units have reported
}

// NewAttempt begins an attempt at units. Each stream of the units has the given number of destinations. If a unit is
// settled before the attempt ends, the attempt passes it to settle(). Each text is passed to redact() before it is
// stored. The function now() reads the clock of the state: a machine's own clock may be hours wrong, and then retries
// would wait for hours, or not at all.
func NewAttempt(units []state.Unit, destinations int, now func() time.Time, redact func(string) string, settle func(...state.Unit)) *Attempt {
	return &Attempt{
		redact: redact, settle: settle, now: now, began: now(), destinations: destinations,
		left: append([]state.Unit(nil), units...), ends: map[string][]pipeline.StreamReport{},
	}
}

// Event records the end of a stream in a destination. It ignores other events.
func (a *Attempt) Event(e pipeline.Event) {
	if e.Kind == pipeline.EventEnd && e.Report != nil {
		a.ended(*e.Report)
	}
}

func (a *Attempt) ended(r pipeline.StreamReport) {
	if u, ok := a.completedUnit(r); ok {
		a.settle(u)
	}
}

// completedUnit records the report r of a stream. If the report completes a unit, completedUnit settles the unit and
// returns it. It leaves the last unit to Settle, because the report of that unit also counts the attempt's remaining
// requests.
func (a *Attempt) completedUnit(r pipeline.StreamReport) (none state.Unit, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ends[r.Stream] = append(a.ends[r.Stream], r)
	for i, u := range a.left {
		all, requests, complete := a.streamReports(u)
		if !complete || len(a.left) == 1 {
			continue
		}
		a.left = append(a.left[:i:i], a.left[i+1:]...)
		a.requests += requests
		rep := pipeline.Report{Status: pipeline.StatusComplete, Started: a.began, Ended: a.now(), Requests: requests, Streams: all}
		return Settle([]state.Unit{u}, rep, nil, false, rep.Ended, a.redact)[0], true
	}
	return none, false
}

func (a *Attempt) streamReports(u state.Unit) (all []pipeline.StreamReport, requests int, complete bool) {
	complete = true
	for _, name := range StreamsOf([]state.Unit{u}) {
		ends, most := a.ends[name], 0
		for _, r := range ends {
			complete = complete && r.Status == pipeline.StatusComplete && !r.Unchecked
			most = max(most, r.Requests) // counted once, because all destinations share the responses
		}
		complete = complete && len(ends) == a.destinations
		all, requests = append(all, ends...), requests+most
	}
	return all, requests, complete
}

// Settle returns the remaining units with their states after the attempt; see the function Settle.
func (a *Attempt) Settle(r pipeline.Report, err error, final bool) []state.Unit {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.Requests = max(0, r.Requests-a.requests)
	return Settle(a.left, r, err, final, a.now(), a.redact)
}
