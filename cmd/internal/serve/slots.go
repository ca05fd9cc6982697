package serve

import (
	"fmt"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/serve/schedule"
	"github.com/penstock-data/penstock/state"
)

// onTime is how late a slot's run may begin and still be the run of its slot:
// the process was being restarted, say.
const onTime = time.Minute

// mostMissed is how many missed slots have a record each. There are more only
// after months, or where the clock was wrong by years: one record stands for the
// others. // Invariant 6
const mostMissed = 1000

// slotState is what else decides about a slot.
type slotState struct {
	paused bool
	run    string // of the whole pipeline, under way; "" for none
}

// due is what has become due between two looks at the clock.
type due struct {
	slots   []state.SlotRecord // to be recorded, in their order
	through time.Time          // the last of them; zero where there is none
	late    string             // why the last of them that is late is; "" for none
	next    time.Time          // when the next becomes due; zero: never
}

// due decides about each slot after seen that has come by now. It decides by
// these arguments alone: what was decided stands in the journal, and no slot is
// decided about twice. // Invariant 18
func (p Plan) due(name string, seen, now time.Time, s slotState) due {
	more, slots := p.Between(seen, now, mostMissed)
	d := due{}
	for len(slots) > 0 {
		last := slots[len(slots)-1]
		start := last.Add(schedule.Jitter(name, last, p.Jitter))
		if !start.After(now) {
			break
		}
		d.next, slots = start, slots[:len(slots)-1] // it is not its turn yet
	}
	if d.next.IsZero() {
		if next := p.Next(now); !next.IsZero() {
			d.next = next.Add(schedule.Jitter(name, next, p.Jitter))
		}
	}
	if more.Count > 0 {
		d.slots = append(d.slots, state.SlotRecord{
			Due: more.Last, State: state.SlotSkipped, Count: more.Count, Cause: string(p.unmade()),
			Why: fmt.Sprintf("nobody was there, as for %d others since %s", more.Count-1, more.First.Format(time.RFC3339)),
		})
		d.late = "nobody was there"
	}
	for i, at := range slots {
		r, late := p.decide(at, slots[len(slots)-1], i == len(slots)-1 && now.Sub(at.Add(schedule.Jitter(name, at, p.Jitter))) <= onTime, s)
		if late {
			d.late = r.Why
			if r.State == state.SlotWaiting {
				d.late = "nobody was there; it is made up for now"
			}
		}
		d.slots, d.through = append(d.slots, r), at
	}
	return d
}

// decide says what becomes of the slot at a time; last is the newest of those
// that are due.
func (p Plan) decide(at, last time.Time, inTime bool, s slotState) (r state.SlotRecord, late bool) {
	r = state.SlotRecord{Due: at, State: state.SlotSkipped, Count: 1}
	all := p.CatchUp == CatchUpAll
	wanted := inTime || all || p.CatchUp != CatchUpNone && at.Equal(last)
	switch {
	case s.paused:
		r.Cause, r.Why = string(SkipPaused), "paused"
		return r, false
	case !wanted && p.CatchUp == CatchUpNone:
		r.Cause, r.Why = string(SkipMissed), "nobody was there, and catch_up is none"
	case !wanted:
		r.Cause, r.Why = string(SkipMadeUp), "nobody was there; the run of "+last.Format(time.RFC3339)+" makes up for it"
	case s.run != "" && (inTime || !all):
		r.Cause, r.Why = string(SkipOverlap), "run "+s.run+" was still under way" // no two at once
	case inTime:
		r.State, r.Cause = state.SlotWaiting, string(TriggerSchedule)
		return r, false
	default:
		r.State, r.Cause = state.SlotWaiting, string(TriggerCatchUp)
	}
	return r, true
}

// unmade says of a slot that nobody was there for, and that has no run of its own,
// whether another does for it.
func (p Plan) unmade() Skip {
	if p.CatchUp == CatchUpNone || p.CatchUp == CatchUpAll {
		return SkipMissed
	}
	return SkipMadeUp
}

// mostBroken is how often a process may end in the middle of the run of one slot
// before the next slot has to do. // Invariant 15
const mostBroken = 3

// recovered says what becomes of a slot that an earlier process has left open.
// One that had begun goes on, unless missed slots are not made up for, or the run
// itself seems to be what ends the process: one that others make, as planned, is
// not.
func (p Plan) recovered(r state.SlotRecord, planned bool) state.SlotRecord {
	if r.State == state.SlotRunning {
		r.Broken++
		r.Why = "the process ended in the middle of run " + r.Run
		r.State, r.Cause = state.SlotWaiting, string(TriggerResume)
	}
	switch {
	case r.Attempts > 0 && p.CatchUp == CatchUpNone:
		r.State, r.Status, r.Why = state.SlotRan, "stopped", r.Why+"; catch_up is none"
	case r.Broken >= mostBroken && !planned:
		r.State, r.Status, r.Why = state.SlotRan, "failed", fmt.Sprintf("given up: the process ended %d times in the middle of it", r.Broken)
	}
	return r
}

// pick takes from the slots that wait, the oldest first, the one to be run next.
// Where one run makes up for all, the newest is it, and the others are over.
func (p Plan) pick(waiting []state.SlotRecord) (next state.SlotRecord, over, rest []state.SlotRecord) {
	if p.CatchUp == CatchUpAll {
		return waiting[0], nil, waiting[1:]
	}
	n := len(waiting) - 1
	next = waiting[n]
	for _, r := range waiting[:n] {
		r.State, r.Cause = state.SlotSkipped, string(SkipMadeUp)
		if r.Attempts > 0 {
			r.State, r.Status = state.SlotRan, "stopped"
		}
		r.Why = "the run of " + next.Due.Format(time.RFC3339) + " makes up for it"
		over = append(over, r)
	}
	return next, over, nil
}
