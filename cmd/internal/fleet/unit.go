package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/plainerror"
	"github.com/penstock-data/penstock/state/retry"
)

// Plan returns the units of one source in a run, one for each family of streams (see [Families]). The field Part of a
// unit lists the names of the unit's streams.
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

// Families groups the streams that one process must read together. A family is a parent with its child
// streams. Twins, two streams whose lists are compared with each other, are in one family too. Families
// are in the order of their first streams, and the streams of a family keep their order.
func Families(streams []schemas.Stream) [][]schemas.Stream {
	at := make(map[string]int, len(streams))
	root := make([]int, len(streams))
	for i, s := range streams {
		at[s.Name], root[i] = i, i
	}
	find := func(i int) int {
		for root[i] != i {
			root[i] = root[root[i]]
			i = root[i]
		}
		return i
	}
	for i, s := range streams {
		for _, of := range []string{s.Parent, s.Twin} {
			if j, among := at[of]; among {
				a, b := find(i), find(j)
				root[max(a, b)] = min(a, b) // the first stream of a family is its root
			}
		}
	}
	var all [][]schemas.Stream
	place := map[int]int{}
	for i, s := range streams {
		r := find(i)
		if _, begun := place[r]; !begun {
			place[r] = len(all)
			all = append(all, nil)
		}
		all[place[r]] = append(all[place[r]], s)
	}
	return all
}

// StreamsOf returns the names of the streams of units.
func StreamsOf(units []state.Unit) []string {
	var names []string
	for _, u := range units {
		names = append(names, strings.Fields(u.Part)...)
	}
	return names
}

// UnitsOf returns all units that a filter selects, page by page.
func UnitsOf(ctx context.Context, from state.Units, f state.UnitFilter) (all []state.Unit, err error) {
	for {
		some, err := from.Units(ctx, f)
		if err != nil || len(some) == 0 {
			return all, err
		}
		all = append(all, some...)
		f.After = some[len(some)-1].ID
	}
}

// UnitReport is the stored report of a unit. It describes the last attempt, and counts the attempts that failed.
type UnitReport struct {
	Status   pipeline.Status         `json:"status,omitempty"`
	Reason   string                  `json:"why,omitempty"` // why the unit is not complete
	Failures int                     `json:"failures,omitempty"`
	Round    int                     `json:"round,omitempty"` // round into which the unit was put off; units of earlier rounds start first
	Started  time.Time               `json:"started_at,omitzero"`
	Ended    time.Time               `json:"ended_at,omitzero"`
	Requests int                     `json:"requests,omitempty"` // requests of the whole attempt; only in the report of the first unit
	Streams  []pipeline.StreamReport `json:"streams,omitempty"`
	Errors   map[string]string       `json:"words,omitempty"` // errors of streams, by name
}

// ReportOf returns a unit's report; the zero UnitReport if it has none.
func ReportOf(u state.Unit) (r UnitReport) {
	if len(u.Report) > 0 && json.Unmarshal(u.Report, &r) != nil {
		return UnitReport{Reason: "cannot read the report of the unit"}
	}
	if u.State == state.UnitFailed && u.Broken >= state.MostBroken {
		r.Status, r.Reason = pipeline.StatusFailed, fmt.Sprintf("given up: its worker died %d times while it worked on this unit, the last time on %s. The system log may say why (out of memory?)", u.Broken, u.Worker)
	}
	if u.State == state.UnitCancelled && r.Reason == "" {
		r.Reason = "cancelled, or its process ended unexpectedly"
	}
	return r
}

func (rep UnitReport) streams() []pipeline.StreamReport {
	all := slices.Clone(rep.Streams)
	for i, s := range all {
		if text := rep.Errors[s.Stream]; text != "" {
			all[i].Err = errors.New(text)
		}
	}
	return all
}

// failedUnit is the retry policy for a unit whose attempt has failed. // Invariant 15
var failedUnit = retry.Policy{First: 10 * time.Second, Growth: 4, Longest: 10 * time.Minute, Attempts: 4}

const (
	// longestPark limits the wait for a source that asks to be retried later. A longer wait is left to a later run.
	longestPark = time.Hour
	// After the first attempt, a unit waits for a lock for lockedPause, after the second for twice as long, and so on.
	// The longest wait is lockedPauses times lockedPause.
	lockedPause  = time.Second
	lockedPauses = 20
)

// Settle returns the units with their states and reports after an attempt. The parameter `r` is the report of the
// attempt. If there was no attempt, `err` is the reason. If `final` is true, `err` comes from the configuration, so
// that a retry would fail again. Settle passes each text to redact() before the text is stored.
func Settle(units []state.Unit, r pipeline.Report, err error, final bool, now time.Time, redact func(string) string) []state.Unit {
	of := map[string][]pipeline.StreamReport{}
	for _, s := range r.Streams {
		of[s.Stream] = append(of[s.Stream], s)
	}
	settled := make([]state.Unit, len(units))
	for i, u := range units {
		rep := UnitReport{Failures: ReportOf(u).Failures, Round: ReportOf(u).Round, Started: r.Started, Ended: r.Ended, Errors: map[string]string{}}
		if i == 0 {
			rep.Requests = r.Requests
		}
		for _, name := range strings.Fields(u.Part) {
			for _, s := range of[name] {
				rep.Streams = append(rep.Streams, s)
				if s.Err != nil {
					rep.Errors[name] = redact(plainerror.Text(s.Err.Error())) // Invariant 5
				}
			}
		}
		settled[i] = rep.settle(u, r, err, final, now, redact)
	}
	return settled
}

// EndUnread ends units that are not to be read. Their reports give the reason.
func EndUnread(units []state.Unit, why string) []state.Unit {
	left := make([]state.Unit, len(units))
	for i, u := range units {
		u.State, u.NotBefore = state.UnitDone, time.Time{}
		u.Report, _ = json.Marshal(UnitReport{Status: pipeline.StatusUnavailable, Reason: why}) // cannot fail: strings only
		left[i] = u
	}
	return left
}

func (rep *UnitReport) settle(u state.Unit, r pipeline.Report, err error, final bool, now time.Time, redact func(string) string) state.Unit {
	if err == nil && len(rep.Streams) == 0 {
		err = r.Err
	}
	rep.Status = worstOf(rep.Streams)
	u.NotBefore = time.Time{}
	switch {
	case r.Status == pipeline.StatusStopped || rep.Status == pipeline.StatusStopped:
		u.State, rep.Status, rep.Reason = state.UnitWaiting, pipeline.StatusStopped, "its worker was stopped before the unit was complete"
	case errors.Is(err, state.ErrLocked) || errors.Is(err, state.ErrMoved):
		u.State, rep.Status, rep.Reason, u.NotBefore = state.UnitParked, pipeline.StatusParked, redact(plainerror.Text(err.Error())), now.Add(lockedPause*time.Duration(min(u.Attempt, lockedPauses)))
	case err != nil && (final || pipeline.Permanent(err)):
		u.State, rep.Status, rep.Reason = state.UnitFailed, pipeline.StatusFailed, redact(plainerror.Text(err.Error()))
	case err != nil:
		rep.Reason = redact(plainerror.Text(err.Error()))
		u = rep.again(u, now)
	case rep.Status == pipeline.StatusFailed && rep.final():
		u.State, rep.Reason = state.UnitFailed, "the source refuses the requests; see the streams"
	case rep.Status == pipeline.StatusFailed:
		u = rep.again(u, now)
	case rep.Status == pipeline.StatusParked:
		u.State, u.NotBefore = parked(rep.Streams, now)
	default: // the unit is complete, or another attempt in this run would change nothing
		u.State = state.UnitDone
	}
	if u.State == state.UnitDone && rep.Status != pipeline.StatusComplete && rep.Reason == "" {
		rep.Reason = "see the streams"
	}
	text, merr := json.Marshal(rep)
	if merr != nil {
		text = fmt.Appendf(nil, `{"status":"failed","why":"cannot write the report of the unit"}`)
	}
	u.Report = text
	return u
}

func (rep *UnitReport) final() bool {
	return !slices.ContainsFunc(rep.Streams, func(s pipeline.StreamReport) bool {
		return s.Status == pipeline.StatusFailed && !pipeline.Permanent(s.Err)
	})
}

func (rep *UnitReport) again(u state.Unit, now time.Time) state.Unit {
	rep.Status = pipeline.StatusFailed
	rep.Failures++
	if rep.Failures >= failedUnit.Attempts {
		u.State = state.UnitFailed
		return u
	}
	u.State, u.NotBefore = state.UnitWaiting, now.Add(failedUnit.Wait(rep.Failures))
	return u
}

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
