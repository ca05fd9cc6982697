package fleet

import (
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// Attempt is one attempt at units that were claimed together. A unit whose streams
// have all come to their ends is settled while others are still read, so that
// whoever takes those over does not read it again. It is safe for concurrent use.
type Attempt struct {
	redact func(string) string
	settle func(...state.Unit)
	now    func() time.Time
	began  time.Time
	places int // destinations that tell of each stream

	mu    sync.Mutex
	left  []state.Unit
	ends  map[string][]pipeline.StreamReport // by stream
	asked int                                // requests that settled units tell of
}

// NewAttempt begins an attempt at units whose streams go to so many places. settle
// is told of those that are settled before its end. Texts go through redact before
// they are kept. Times are by now, the clock of the ledger: by that of a machine which
// is hours off, units that are to be begun again would wait for hours, or not at all.
func NewAttempt(units []state.Unit, places int, now func() time.Time, redact func(string) string, settle func(...state.Unit)) *Attempt {
	return &Attempt{
		redact: redact, settle: settle, now: now, began: now(), places: places,
		left: append([]state.Unit(nil), units...), ends: map[string][]pipeline.StreamReport{},
	}
}

// Event takes note of what happens: of the ends of streams, in each place.
func (a *Attempt) Event(e pipeline.Event) {
	if e.Kind == pipeline.EventEnd && e.Report != nil {
		a.ended(*e.Report)
	}
}

func (a *Attempt) ended(r pipeline.StreamReport) {
	if u, ok := a.take(r); ok {
		a.settle(u)
	}
}

// take is the unit that is complete with the end of this stream. The last one is
// left to the end of the attempt, whose own figures go with it.
func (a *Attempt) take(r pipeline.StreamReport) (none state.Unit, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ends[r.Stream] = append(a.ends[r.Stream], r)
	for i, u := range a.left {
		all, asked, complete := a.of(u)
		if !complete || len(a.left) == 1 {
			continue
		}
		a.left = append(a.left[:i:i], a.left[i+1:]...)
		a.asked += asked
		rep := pipeline.Report{Status: pipeline.StatusComplete, Started: a.began, Ended: a.now(), Requests: asked, Streams: all}
		return Settle([]state.Unit{u}, rep, nil, false, rep.Ended, a.redact)[0], true
	}
	return none, false
}

// of is what is known of a unit's streams, how many requests they took, and whether
// each is complete everywhere.
func (a *Attempt) of(u state.Unit) (all []pipeline.StreamReport, asked int, complete bool) {
	complete = true
	for _, name := range StreamsOf([]state.Unit{u}) {
		ends, most := a.ends[name], 0
		for _, r := range ends {
			complete = complete && r.Status == pipeline.StatusComplete
			most = max(most, r.Requests) // destinations share the answers
		}
		complete = complete && len(ends) == a.places
		all, asked = append(all, ends...), asked+most
	}
	return all, asked, complete
}

// Settle says what becomes of the units that are left, as the function of that name
// does.
func (a *Attempt) Settle(r pipeline.Report, err error, final bool) []state.Unit {
	a.mu.Lock()
	defer a.mu.Unlock()
	r.Requests = max(0, r.Requests-a.asked)
	return Settle(a.left, r, err, final, a.now(), a.redact)
}
