package serve

import (
	"fmt"
	"slices"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/serve/schedule"
	"github.com/penstock-data/penstock/state"
)

// onTime is the longest delay with which a run still counts as in time. A run is delayed, for example, by a restart of
// the daemon.
const onTime = time.Minute

// mostMissed is the maximum number of missed slots that each get a record. All earlier missed slots share one record.
// There are more missed slots only if the daemon was not running for months, or if the clock was wrong by years.
// Invariant 6
const mostMissed = 1000

type slotState struct {
	paused bool
	run    string // id of the run in progress that reads the whole pipeline; "" if there is none
}

type due struct {
	slots      []state.SlotRecord // new records, in order
	newest     time.Time          // due time of the last record in slots; zero if there is none
	lateReason string             // why the newest late slot is late; "" if no slot is late
	next       time.Time          // when the next slot becomes due; zero: never
}

// due decides what happens to the slots of a period. The parameter seen is the last slot that an earlier call has
// decided. The period begins after seen and ends at now. The decision depends only on the arguments. The caller records
// the decision in the journal, so that no slot is decided twice.
// Invariant 18
func (p Plan) due(name string, seen, now time.Time, s slotState) due {
	more, slots := p.Between(seen, now, mostMissed)
	d := due{}
	for len(slots) > 0 {
		last := slots[len(slots)-1]
		start := last.Add(schedule.Jitter(name, last, p.Jitter))
		if !start.After(now) {
			break
		}
		d.next, slots = start, slots[:len(slots)-1]
	}
	if d.next.IsZero() {
		if next := p.Next(now); !next.IsZero() {
			d.next = next.Add(schedule.Jitter(name, next, p.Jitter))
		}
	}
	if more.Count > 0 {
		d.slots = append(d.slots, state.SlotRecord{
			Due: more.Last, State: state.SlotSkipped, Count: more.Count, Cause: string(p.unmade()),
			Why: fmt.Sprintf("the daemon was not running; %d earlier slots since %s were also missed", more.Count-1, more.First.Format(time.RFC3339)),
		})
		d.lateReason = "the daemon was not running"
	}
	for i, at := range slots {
		r, late := p.decide(at, slots[len(slots)-1], i == len(slots)-1 && now.Sub(at.Add(schedule.Jitter(name, at, p.Jitter))) <= onTime, s)
		if late {
			d.lateReason = r.Why
			if r.State == state.SlotWaiting {
				d.lateReason = "the daemon was not running; the slot is run now"
			}
		}
		d.slots, d.newest = append(d.slots, r), at
	}
	return d
}

func (p Plan) decide(at, last time.Time, inTime bool, s slotState) (r state.SlotRecord, late bool) {
	r = state.SlotRecord{Due: at, State: state.SlotSkipped, Count: 1}
	all := p.CatchUp == CatchUpAll
	wanted := inTime || all || p.CatchUp != CatchUpNone && at.Equal(last)
	switch {
	case s.paused:
		r.Cause, r.Why = string(SkipPaused), "paused"
		return r, false
	case !wanted && p.CatchUp == CatchUpNone:
		r.Cause, r.Why = string(SkipMissed), "the daemon was not running, and catch_up is none"
	case !wanted:
		r.Cause, r.Why = string(SkipMadeUp), "the daemon was not running; the run of "+last.Format(time.RFC3339)+" covers this slot"
	case s.run != "" && (inTime || !all):
		r.Cause, r.Why = string(SkipOverlap), state.OverlapReason(s.run) // two runs of a pipeline never overlap
	case inTime:
		r.State, r.Cause = state.SlotWaiting, string(TriggerSchedule)
		return r, false
	default:
		r.State, r.Cause, r.Patient = state.SlotWaiting, string(TriggerCatchUp), all
	}
	return r, true
}

func (p Plan) unmade() Skip {
	if p.CatchUp == CatchUpNone || p.CatchUp == CatchUpAll {
		return SkipMissed
	}
	return SkipMadeUp
}

// If this number of processes has ended during the run of one slot, the slot is not run again.
// Invariant 15
const mostBroken = 3

// recovered returns the new record of a slot that an earlier process left open. A run that had begun is resumed, with
// two exceptions. First, it is not resumed if catch_up is none. Second, it is not resumed if the process has ended
// mostBroken times during the run, because the run itself may be the cause. The second exception does not apply to a
// planned run, because other processes do its work.
func (p Plan) recovered(r state.SlotRecord, planned bool) state.SlotRecord {
	if r.State == state.SlotRunning {
		r.Broken++
		r.Why = "the process ended during run " + r.Run
		r.State, r.Cause = state.SlotWaiting, string(TriggerResume)
	}
	switch {
	case r.Attempts > 0 && p.CatchUp == CatchUpNone:
		r.State, r.Status, r.Why = state.SlotRan, "stopped", r.Why+"; catch_up is none"
	case r.Broken >= mostBroken && !planned:
		r.State, r.Status, r.Why = state.SlotRan, "failed", fmt.Sprintf("given up: the process ended %d times during the run", r.Broken)
	}
	return r
}

// pick selects the slot to run next. The parameter waiting is sorted, the oldest slot first.
//
// With CatchUpAll, pick selects the oldest slot whose run was interrupted, because no other run can begin before that
// run has ended. If no run was interrupted, pick selects the oldest slot. The result remaining contains the other
// slots.
//
// Without CatchUpAll, pick selects the newest slot, whose run does the work of all other slots. The result madeUp
// contains the new records of these other slots.
func (p Plan) pick(waiting []state.SlotRecord) (next state.SlotRecord, madeUp, remaining []state.SlotRecord) {
	if p.CatchUp == CatchUpAll {
		i := max(0, slices.IndexFunc(waiting, func(r state.SlotRecord) bool { return r.Attempts > 0 }))
		return waiting[i], nil, slices.Concat(waiting[:i], waiting[i+1:])
	}
	n := len(waiting) - 1
	next = waiting[n]
	for _, r := range waiting[:n] {
		r.State, r.Cause = state.SlotSkipped, string(SkipMadeUp)
		if r.Attempts > 0 {
			r.State, r.Status = state.SlotRan, "stopped"
		}
		r.Why = "the run of " + next.Due.Format(time.RFC3339) + " covers this slot"
		madeUp = append(madeUp, r)
	}
	return next, madeUp, nil
}
