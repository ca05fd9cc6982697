package pipeline

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/penstock-data/penstock/state"
)

// Status says how a stream, or a whole run, ended.
type Status string

// How a stream ends. A run is running, complete, partial, failed or stopped.
const (
	StatusComplete    Status = "complete"    // read to its end, everything committed
	StatusHeld        Status = "held"        // waits for a person: missing rows were kept, or a table was not changed
	StatusUnavailable Status = "unavailable" // the source does not give it: not entitled, switched off, gone
	StatusParked      Status = "parked"      // put off until NotBefore, or until a lock is free
	StatusLagging     Status = "lagging"     // this destination did not take what others have; a later run catches up
	StatusFailed      Status = "failed"
	StatusStopped     Status = "stopped" // by a signal, before its end

	StatusRunning Status = "running"
	StatusPartial Status = "partial" // safe progress, and something left to do
)

// Exit codes of a run, as the contract states them.
const (
	exitComplete   = 0
	exitFailed     = 1
	exitUsage      = 2
	exitPartial    = 75
	exitInterrupt  = 130
	exitTerminated = 143
)

// Counts add up: Fetched = Written + Unchanged + Deduplicated + Rejected.
type Counts struct {
	Fetched      int64 `json:"fetched"`
	Written      int64 `json:"written"`
	Unchanged    int64 `json:"unchanged"`
	Deduplicated int64 `json:"deduplicated"`
	Rejected     int64 `json:"rejected"` // records left out, not values
	Deleted      int64 `json:"deleted"`
}

// Add returns the sum of c and d.
func (c Counts) Add(d Counts) Counts {
	c.Fetched += d.Fetched
	c.Written += d.Written
	c.Unchanged += d.Unchanged
	c.Deduplicated += d.Deduplicated
	c.Rejected += d.Rejected
	c.Deleted += d.Deleted
	return c
}

// StreamReport is what became of one stream in one destination. Its counts are
// sums over the passes the run made.
type StreamReport struct {
	Stream      string        `json:"stream"`
	Table       string        `json:"table"`
	Destination string        `json:"destination,omitempty"`
	Backfill    string        `json:"backfill,omitempty"` // its name: see [Backfill.Name]
	Done        time.Time     `json:"done_at,omitzero"`   // of a backfill that was done before
	Status      Status        `json:"status"`
	Verdict     Verdict       `json:"verdict,omitempty"` // of the last pass that ended
	Why         string        `json:"why,omitempty"`     // its reasons: the proof, or what is missing
	Counts      Counts        `json:"counts"`
	Missing     int64         `json:"missing,omitempty"` // rows kept although the last pass did not carry them
	Passes      int           `json:"passes"`
	Pages       int           `json:"pages"`
	Requests    int           `json:"requests"`
	Bytes       int64         `json:"bytes"`
	Duration    time.Duration `json:"duration"`
	NotBefore   time.Time     `json:"not_before,omitzero"` // of a parked stream
	Notices     []Notice      `json:"notices,omitempty"`   // how the source is not as it was, the gravest first
	Webhooks    *Webhooks     `json:"webhooks,omitempty"`  // what its events have come to; nil where none has
	Err         error         `json:"-"`
}

// Report is the outcome of a run.
type Report struct {
	Run      string         `json:"run"`
	Pipeline string         `json:"pipeline"`
	Source   string         `json:"source,omitempty"` // of a run over one of several sources
	Status   Status         `json:"status"`
	Started  time.Time      `json:"started_at"`
	Ended    time.Time      `json:"ended_at"`
	Requests int            `json:"requests"`           // that the source was asked, however many destinations shared the answers
	Forecast *Outlook       `json:"forecast,omitempty"` // how the run has held against it
	Streams  []StreamReport `json:"streams"`
	Err      error          `json:"-"` // the run's own trouble, nil where only streams had any

	cause   error // of a stop
	partial bool  // Err is about some of the destinations
}

// in is r with the streams of one destination alone.
func (r Report) in(destination string) Report {
	elsewhere := func(s StreamReport) bool { return s.Destination != destination }
	r.Streams = slices.DeleteFunc(slices.Clone(r.Streams), elsewhere)
	return r
}

// Totals sums the streams up, those of each destination.
func (r Report) Totals() StreamReport {
	var t StreamReport
	for _, s := range r.Streams {
		t.Counts = t.Counts.Add(s.Counts)
		t.Missing += s.Missing
		t.Passes += s.Passes
		t.Pages += s.Pages
		t.Requests += s.Requests
		t.Bytes += s.Bytes
	}
	return t
}

// ExitCode is the process's exit code after this run: 0 only when every stream
// is complete. // Invariant 14
func (r Report) ExitCode() int {
	switch r.Status {
	case StatusComplete:
		return exitComplete
	case StatusPartial:
		return exitPartial
	case StatusStopped:
		if stop, ok := errors.AsType[*stopError](r.cause); ok && stop.signal == syscall.SIGTERM {
			return exitTerminated
		}
		return exitInterrupt
	}
	if len(r.BaseErrors()) > 0 {
		return exitUsage
	}
	return exitFailed
}

// HeldError is why nothing, or not all that is missing, was deleted at the end of
// a stream that was read to its end.
type HeldError struct {
	Reason  string
	Confirm bool     // Options.ConfirmShrink deletes it
	Doubts  []string // of package proof, those that apply, the gravest first
}

// Error is the reason.
func (e *HeldError) Error() string { return e.Reason }

// Stop makes the cause with which a signal handler cancels a run's context.
func Stop(s os.Signal) error { return &stopError{signal: s} }

type stopError struct{ signal os.Signal }

// Error names the signal.
func (e *stopError) Error() string { return "stopped by " + e.signal.String() }

// summarise sets r's status from its own error and from those of its streams.
func (r *Report) summarise() {
	r.Status = StatusComplete
	if r.Err != nil {
		r.Status = StatusFailed
		if r.partial || errors.Is(r.Err, state.ErrLocked) {
			r.Status = StatusPartial // nothing keeps a later run from doing what is left
		}
	}
	if r.cause != nil {
		r.Status = StatusStopped
	}
	for _, s := range r.Streams {
		r.Status = worse(r.Status, s.Status)
	}
}

// worse is the run's status after one more stream ended with s.
func worse(run, s Status) Status {
	rank := map[Status]int{StatusComplete: 0, StatusPartial: 1, StatusFailed: 2, StatusStopped: 3}
	if _, ok := rank[s]; !ok {
		s = StatusPartial
	}
	if rank[s] > rank[run] {
		return s
	}
	return run
}
