package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Plan are the units of one source in a run: one for each family of streams. The
// part of a unit is the names of its streams.
func Plan(run, name, source string, streams []schemas.Stream) []state.Unit {
	var units []state.Unit
	for _, family := range Families(streams) {
		names := make([]string, len(family))
		for i, s := range family {
			names[i] = s.Name
		}
		units = append(units, state.Unit{Run: run, Pipeline: name, Source: source, Part: strings.Join(names, " ")})
	}
	return units
}

// StreamsOf are the names of the streams of units.
func StreamsOf(units []state.Unit) []string {
	var names []string
	for _, u := range units {
		names = append(names, strings.Fields(u.Part)...)
	}
	return names
}

// UnitReport is what the report of a unit tells: of its last attempt, and how
// many came to nothing.
type UnitReport struct {
	Status   pipeline.Status         `json:"status,omitempty"`
	Why      string                  `json:"why,omitempty"` // it is not complete
	Failures int                     `json:"failures,omitempty"`
	Round    int                     `json:"round,omitempty"` // that it was put off into: others go before it
	Started  time.Time               `json:"started_at,omitzero"`
	Ended    time.Time               `json:"ended_at,omitzero"`
	Requests int                     `json:"requests,omitempty"` // of the attempt, in the first of the units that it was about
	Streams  []pipeline.StreamReport `json:"streams,omitempty"`
	Words    map[string]string       `json:"words,omitempty"` // what streams met, by name
}

// ReportOf reads a unit's report; the zero UnitReport where it has none.
func ReportOf(u state.Unit) (r UnitReport) {
	if len(u.Report) > 0 && json.Unmarshal(u.Report, &r) != nil {
		return UnitReport{Why: "its report cannot be read"}
	}
	if u.State == state.UnitFailed && u.Broken >= state.MostBroken {
		r.Status, r.Why = pipeline.StatusFailed, fmt.Sprintf("given up: its worker ended without a word %d times in the middle of it, at last %s; the log of the system may say why (memory?)", u.Broken, u.Worker)
	}
	if u.State == state.UnitCancelled && r.Why == "" {
		r.Why = "cancelled, or its process has ended without a word"
	}
	return r
}

// streams are those of the report, with the words that they met.
func (rep UnitReport) streams() []pipeline.StreamReport {
	all := slices.Clone(rep.Streams)
	for i, s := range all {
		if text := rep.Words[s.Stream]; text != "" {
			all[i].Err = errors.New(text)
		}
	}
	return all
}

// How often a unit is tried that fails, and when again. // Invariant 15
const (
	mostFailures = 4
	firstPause   = 10 * time.Second
	longestPause = 10 * time.Minute
	// longestPark is how long a unit waits for a source that asks to come back
	// later. What lies further off is left to a later run.
	longestPark = time.Hour
	// lockedPause is how soon one is tried whose source or destination another has,
	// a little later each time.
	lockedPause  = time.Second
	lockedPauses = 20
)

// Settle says what becomes of units after an attempt with this report, or of one
// that err kept from its work. final says of an error that it would come again:
// it is the configuration's. Texts go through redact before they are kept.
func Settle(units []state.Unit, r pipeline.Report, err error, final bool, now time.Time, redact func(string) string) []state.Unit {
	of := map[string][]pipeline.StreamReport{}
	for _, s := range r.Streams {
		of[s.Stream] = append(of[s.Stream], s)
	}
	settled := make([]state.Unit, len(units))
	for i, u := range units {
		rep := UnitReport{Failures: ReportOf(u).Failures, Round: ReportOf(u).Round, Started: r.Started, Ended: r.Ended, Words: map[string]string{}}
		if i == 0 {
			rep.Requests = r.Requests
		}
		for _, name := range strings.Fields(u.Part) {
			for _, s := range of[name] {
				rep.Streams = append(rep.Streams, s)
				if s.Err != nil {
					rep.Words[name] = redact(s.Err.Error()) // Invariant 5
				}
			}
		}
		settled[i] = rep.settle(u, r, err, final, now, redact)
	}
	return settled
}

// Left are units that nobody shall read, and why.
func Left(units []state.Unit, why string) []state.Unit {
	left := make([]state.Unit, len(units))
	for i, u := range units {
		u.State, u.NotBefore = state.UnitDone, time.Time{}
		u.Report, _ = json.Marshal(UnitReport{Status: pipeline.StatusUnavailable, Why: why}) // which always marshals
		left[i] = u
	}
	return left
}

// settle is what becomes of one unit.
func (rep *UnitReport) settle(u state.Unit, r pipeline.Report, err error, final bool, now time.Time, redact func(string) string) state.Unit {
	if err == nil && len(rep.Streams) == 0 {
		err = r.Err
	}
	rep.Status = worstOf(rep.Streams)
	u.NotBefore = time.Time{}
	switch {
	case r.Status == pipeline.StatusStopped || rep.Status == pipeline.StatusStopped:
		u.State, rep.Status, rep.Why = state.UnitWaiting, pipeline.StatusStopped, "given up: its worker was stopped"
	case errors.Is(err, state.ErrLocked) || errors.Is(err, state.ErrMoved):
		u.State, rep.Status, rep.Why, u.NotBefore = state.UnitParked, pipeline.StatusParked, redact(err.Error()), now.Add(lockedPause*time.Duration(min(u.Attempt, lockedPauses)))
	case err != nil && (final || pipeline.Final(err)):
		u.State, rep.Status, rep.Why = state.UnitFailed, pipeline.StatusFailed, redact(err.Error())
	case err != nil:
		rep.Why = redact(err.Error())
		u = rep.again(u, now)
	case rep.Status == pipeline.StatusFailed && rep.final():
		u.State, rep.Why = state.UnitFailed, "the source refuses; see its streams"
	case rep.Status == pipeline.StatusFailed:
		u = rep.again(u, now)
	case rep.Status == pipeline.StatusParked:
		u.State, u.NotBefore = parked(rep.Streams, now)
	default: // complete, or what no further attempt of this run would change
		u.State = state.UnitDone
	}
	if u.State == state.UnitDone && rep.Status != pipeline.StatusComplete && rep.Why == "" {
		rep.Why = "see its streams"
	}
	text, merr := json.Marshal(rep)
	if merr != nil {
		text = fmt.Appendf(nil, `{"status":"failed","why":"its report cannot be written"}`)
	}
	u.Report = text
	return u
}

// final reports whether every stream that has failed would do so again.
func (rep *UnitReport) final() bool {
	return !slices.ContainsFunc(rep.Streams, func(s pipeline.StreamReport) bool {
		return s.Status == pipeline.StatusFailed && !pipeline.Final(s.Err)
	})
}

// again has a unit that has failed be tried once more after a pause, unless it
// was tried often enough.
func (rep *UnitReport) again(u state.Unit, now time.Time) state.Unit {
	rep.Status = pipeline.StatusFailed
	rep.Failures++
	if rep.Failures >= mostFailures {
		u.State = state.UnitFailed
		return u
	}
	u.State, u.NotBefore = state.UnitWaiting, now.Add(min(longestPause, firstPause<<(2*(rep.Failures-1))))
	return u
}

// parked says until when a unit waits whose source, or table, was not to be had.
func parked(streams []pipeline.StreamReport, now time.Time) (state.UnitState, time.Time) {
	until := now.Add(lockedPause)
	for _, s := range streams {
		if s.Status == pipeline.StatusParked && s.NotBefore.After(until) {
			until = s.NotBefore
		}
	}
	if until.Sub(now) > longestPark {
		return state.UnitDone, time.Time{}
	}
	return state.UnitParked, until
}

// worstOf is the status of the streams as one; complete where there are none.
func worstOf(streams []pipeline.StreamReport) pipeline.Status {
	order := []pipeline.Status{
		pipeline.StatusComplete, pipeline.StatusHeld, pipeline.StatusUnavailable, pipeline.StatusLagging,
		pipeline.StatusParked, pipeline.StatusFailed, pipeline.StatusStopped,
	}
	worst := 0
	for _, s := range streams {
		for i, status := range order {
			if s.Status == status {
				worst = max(worst, i)
			}
		}
	}
	return order[worst]
}
