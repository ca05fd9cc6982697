package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve/schedule"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/retry"
)

var errDeadline = errors.New("deadline")

// Overdue reports whether ctx has ended because the run has reached its deadline.
func Overdue(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errDeadline) }

// Problem is one reason why streams of a run are not complete.
type Problem struct {
	Status      pipeline.Status
	Streams     []string
	Destination string
	Reason      string
	Hint        string // what to do; "" if there is nothing to do
}

type execution struct {
	*worker
	p       Pipeline
	order   RunRequest
	slot    state.SlotRecord // zero: the run has no slot
	started time.Time

	problems []Problem // why streams are not complete, once the run has ended

	mu  sync.Mutex
	log []state.LogLine
}

// run performs the run. It returns true if the run could not begin, because another run of the pipeline is under way.
func (x *execution) run(ctx context.Context) (refused bool) {
	if err := x.begun(ctx); err != nil {
		x.refused(err)
		return true
	}
	limited := ctx
	if x.p.Plan.Deadline > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeoutCause(ctx, x.p.Plan.Deadline, fmt.Errorf("%w of %s", errDeadline, x.p.Plan.Deadline))
		defer cancel()
	}
	report, err := x.guarded(limited)
	if err == nil && report.Status == pipeline.StatusStopped && Overdue(limited) {
		x.note("warn", pipeline.Event{}, "stopped by its "+context.Cause(limited).Error()+"; the next run continues from the last commit")
	}
	x.otherRun(err)
	if x.d.Problems != nil {
		x.problems = x.d.Problems(report)
	}
	x.ended(ctx, x.d.cleanReport(report), x.d.clean(err))
	return isRefused(report, err)
}

func isRefused(report pipeline.Report, err error) bool {
	return errors.Is(err, state.ErrLocked) && len(report.Streams) == 0
}

// guarded runs the pipeline. It turns a panic into an error, so that the daemon goes on.
func (x *execution) guarded(ctx context.Context) (report pipeline.Report, err error) {
	defer func() {
		if v := recover(); v != nil {
			x.d.Log.Error("run panicked", "pipeline", x.p.Name, "run", x.order.Run, "stack", string(debug.Stack()))
			err = fmt.Errorf("run %s: panic: %v", x.p.Name, v)
		}
	}()
	o := x.order
	o.Progress = x.progress
	o.Rates = func(rates func() []Rate) {
		x.d.hub.update(x.p.Name, func(s *Status) {
			if s.Running != nil {
				s.Running.rates = rates
			}
		})
	}
	if !x.p.Concurrent {
		select {
		case x.turn <- struct{}{}:
			defer func() { <-x.turn }()
		case <-ctx.Done():
			return pipeline.Report{Status: pipeline.StatusStopped}, nil
		}
	}
	return x.p.Run(ctx, o)
}

// begun() notes in the journal and the hub that the run begins. It returns an error if the run must not begin, because
// another process has begun a run of the pipeline. // Invariant 18
func (x *execution) begun(ctx context.Context) error {
	o := x.order
	x.d.hub.update(x.p.Name, func(s *Status) {
		s.Running = &Running{Run: o.Run, Trigger: o.Trigger, Due: x.slot.Due, Started: x.started}
	})
	if x.slot.Due.IsZero() { // for a run with a slot, beginSlot has recorded the run
		err := x.d.Journal.BeginRun(ctx, x.record(state.RunRecord{Status: string(pipeline.StatusRunning)}))
		if errors.Is(err, state.ErrUnderWay) {
			return err
		}
		if err != nil {
			x.d.Log.Warn("cannot record run", "pipeline", x.p.Name, "run", o.Run, "error", err)
		}
	}
	x.d.Log.Info("run begun", "pipeline", x.p.Name, "run", o.Run, "trigger", o.Trigger)
	x.d.observe.Observe(RunStarted{Pipeline: x.p.Name, Run: o.Run, Trigger: o.Trigger, Due: x.slot.Due, At: x.started})
	return nil
}

// refused() reports that the run did not begin. It writes no record and sends no [RunEnded], because nothing was
// recorded or sent about the beginning of the run either. // Invariant 14
func (x *execution) refused(err error) {
	x.otherRun(err)
	x.d.hub.update(x.p.Name, func(s *Status) { s.Running = nil })
	x.d.Log.Warn("run refused", "pipeline", x.p.Name, "run", x.order.Run, "trigger", x.order.Trigger, "reason", x.d.clean(err))
}

func (x *execution) progress(e pipeline.Event) {
	if e.Report != nil {
		r := x.d.cleanStream(*e.Report)
		e.Report = &r
	}
	x.d.hub.progress(x.p.Name, x.order.Run, e, x.d.Now())
	x.d.observe.Observe(RunProgress{Pipeline: x.p.Name, Run: x.order.Run, Event: e})
	if e.Kind == pipeline.EventStart {
		x.note("info", e, "begun")
	}
	if e.Kind != pipeline.EventEnd || e.Report == nil {
		return
	}
	switch r := e.Report; {
	case r.Err != nil:
		x.note("error", e, fmt.Sprintf("%s: %s: %v", r.Destination, r.Status, r.Err))
	case r.Status != pipeline.StatusComplete:
		x.note("warn", e, fmt.Sprintf("%s: %s: %s", r.Destination, r.Status, r.Reasons))
	default:
		x.note("info", e, fmt.Sprintf("%s: %s, %d written, %d deleted", r.Destination, r.Verdict, r.Counts.Written, r.Counts.Deleted))
	}
}

// Invariant 6
const (
	mostLines = 2000
	mostText  = 4 << 10
)

func (x *execution) note(level string, event pipeline.Event, text string) {
	text = x.d.Redact(text) // Invariant 5
	x.mu.Lock()
	defer x.mu.Unlock()
	if len(text) > mostText {
		text = strings.ToValidUTF8(text[:mostText], "") + "…"
	}
	line := state.LogLine{At: x.d.Now().UTC(), Level: level, Source: event.Source, Stream: event.Stream, Text: text}
	if len(x.log) == mostLines {
		x.log[mostLines-1] = line
		return
	}
	x.log = append(x.log, line)
}

func (x *execution) ended(ctx context.Context, report pipeline.Report, err error) {
	x.slot = x.settled(ctx, report, err)
	rec := state.RunRecord{Status: string(pipeline.StatusFailed), Ended: x.d.Now()}
	if report.Run != "" {
		rec.Status = string(report.Status)
		if x.d.Encode != nil {
			rec.Report = x.d.Encode(report)
		}
	}
	for _, c := range report.Commands {
		level := "info"
		if c.Result != pipeline.CommandOK {
			level = "error"
		}
		x.note(level, pipeline.Event{}, fmt.Sprintf("command %s: %s in %s", c, c.Result, c.Took().Round(time.Millisecond)))
	}
	if err = errors.Join(err, report.Err); err != nil {
		rec.Error = err.Error()
		x.note("error", pipeline.Event{}, rec.Error)
	}
	x.write(ctx, rec)
	if x.slot.State == state.SlotSkipped {
		x.d.skipped(x.slot)
	}
	next := x.pipeline().Plan.Upcoming(x.d.Now(), shownSlots) // before hub.update: the worker's lock must be taken before the hub's
	x.d.hub.update(x.p.Name, func(s *Status) {
		s.Running, s.Last, s.LastErr, s.Next = nil, &report, err, next
	})
	x.logEnd(ctx, rec, report, err)
	x.d.observe.Observe(RunEnded{
		Pipeline: x.p.Name, Run: x.order.Run, Trigger: x.order.Trigger, Due: x.slot.Due, At: rec.Ended, Report: report, Err: err,
		Late: x.late(), Over: x.slot.State == state.SlotRan,
	})
}

// maxLogged is how many streams that are not complete are logged for a run.
const maxLogged = 20

// logEnd logs how a run has ended, and why its streams are not complete. A run that was stopped with the daemon is no
// failure.
func (x *execution) logEnd(ctx context.Context, rec state.RunRecord, report pipeline.Report, err error) {
	log := x.d.Log.With("pipeline", x.p.Name, "run", x.order.Run)
	level := slog.LevelWarn
	switch {
	case rec.Status == string(pipeline.StatusComplete), rec.Status == string(pipeline.StatusStopped), ctx.Err() != nil:
		level = slog.LevelInfo
	case rec.Status == string(pipeline.StatusFailed):
		level = slog.LevelError
	}
	if level > slog.LevelInfo {
		for _, p := range x.problems[:min(len(x.problems), maxLogged)] {
			log.Log(ctx, level, "streams not complete", "status", p.Status, "streams", strings.Join(p.Streams, ","),
				"destination", p.Destination, "reason", x.d.Redact(p.Reason), "hint", x.d.Redact(p.Hint)) // Invariant 5
		}
		if more := len(x.problems) - maxLogged; more > 0 {
			log.Log(ctx, level, "streams not complete for further reasons; `penstock status` shows all", "reasons", more)
		}
	}
	if err != nil && ctx.Err() == nil {
		log.Error("run not complete", "error", err)
	}
	if report.Paused != "" {
		log.Info("nothing was read, because the source is paused", "source", report.Paused)
	}
	log.Log(ctx, level, "run ended", "status", rec.Status, "took", rec.Ended.Sub(x.started).Round(time.Millisecond),
		"requests", report.Requests, "written", report.Totals().Counts.Written)
}

// late reports whether the run began too late for its slot. It returns false for a resumed run, whose lateness
// was reported when the run first began.
func (x *execution) late() bool {
	due := x.slot.Due
	if due.IsZero() || x.order.Trigger == TriggerResume {
		return false
	}
	return x.started.Sub(due.Add(schedule.Jitter(x.p.Name, due, x.p.Plan.Jitter))) > onTime
}

func (x *execution) settled(ctx context.Context, report pipeline.Report, err error) state.SlotRecord {
	r := x.slot
	if r.Due.IsZero() {
		return r
	}
	r.State, r.Ended, r.Status = state.SlotRan, x.d.Now(), string(report.Status)
	if err != nil {
		r.Why = err.Error()
	}
	switch {
	case ctx.Err() != nil && x.p.Plan.CatchUp != CatchUpNone && report.Status != pipeline.StatusComplete:
		r.State, r.Cause, r.Why = state.SlotWaiting, string(TriggerResume), "the daemon was stopped; the run resumes at the next start"
	case isRefused(report, err):
		r.State, r.Cause = state.SlotSkipped, string(SkipLocked) // another process runs the pipeline, and runs must not overlap
	case r.Status == "":
		r.Status = string(pipeline.StatusFailed)
	}
	return r
}

// recordGrace is how long a daemon may write records while it stops. It must be short, because a daemon must stop
// within ten seconds. // Invariant 15
const recordGrace = time.Second

// outlive returns a context for writing records. The context has a deadline only while the daemon stops. Otherwise
// writing may take as long as a slow disk needs, because a slot without a record would be run again. // Invariant 18
func outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	return pipeline.WithGrace(ctx, recordGrace)
}

func (x *execution) record(r state.RunRecord) state.RunRecord {
	x.mu.Lock()
	defer x.mu.Unlock()
	r.Pipeline, r.Run, r.Cause, r.Due, r.Started, r.Log = x.p.Name, x.order.Run, string(x.order.Trigger), x.slot.Due, x.started, slices.Clone(x.log)
	return r
}

// unwritten is the retry policy for the record of a run that has ended. Without this record, the run would seem to go
// on, and no other run of the pipeline could begin. If the daemon stops first, another process completes the record.
var unwritten = retry.Policy{First: time.Second, Longest: 30 * time.Second}

// write() stores the record of the run and the record of its slot in one step. It tries again until it succeeds or ctx
// ends. If another process has taken the slot, it stores only the record of the run.
func (x *execution) write(ctx context.Context, r state.RunRecord) {
	for tries := unwritten.Begin(); x.writeOnce(ctx, r) != nil; {
		if !tries.Again(ctx) {
			return
		}
	}
}

func (x *execution) writeOnce(ctx context.Context, r state.RunRecord) error {
	r = x.record(r)
	late, cancel := outlive(ctx)
	defer cancel()
	if !x.slot.Due.IsZero() {
		err := x.d.Journal.SetSlot(late, x.slot, r)
		if err == nil {
			return nil
		}
		x.d.Log.Error("cannot record slot", "pipeline", x.p.Name, "due", r.Due, "error", err)
		if !errors.Is(err, state.ErrTaken) {
			return err
		}
	}
	err := x.d.Journal.KeepRun(late, r)
	if err != nil {
		x.d.Log.Warn("cannot record run", "pipeline", x.p.Name, "run", r.Run, "error", err)
	}
	return err
}
