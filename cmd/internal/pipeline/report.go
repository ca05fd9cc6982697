package pipeline

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/checks"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/forecast"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/proof"
	"github.com/penstock-data/penstock/state"
)

// Status is the outcome of a stream, or of a whole run.
type Status string

// The outcomes of streams and runs. Only running, complete, partial, failed and stopped are outcomes of a run.
const (
	StatusComplete    Status = "complete"    // read to its end, everything committed
	StatusHeld        Status = "held"        // waits for a person: missing rows were kept, a table was not changed, or rows failed a check
	StatusUnavailable Status = "unavailable" // the source does not return the stream: not entitled, switched off, gone
	StatusParked      Status = "parked"      // deferred until NotBefore, or until a lock is free
	StatusLagging     Status = "lagging"     // this destination lacks data that other destinations have; a later run catches up
	StatusFailed      Status = "failed"
	StatusStopped     Status = "stopped" // stopped by a signal before its end

	StatusRunning Status = "running"
	StatusPartial Status = "partial" // committed data is safe, but the run is not complete
)

// The exit codes of a run.
const (
	exitComplete   = 0
	exitFailed     = 1
	exitUsage      = 2
	exitPartial    = 75
	exitInterrupt  = 130
	exitTerminated = 143
)

// Counts are numbers of records and rows. Fetched = Written + Unchanged + Deduplicated + Rejected.
type Counts struct {
	Fetched      int64 `json:"fetched"`
	Written      int64 `json:"written"`
	Unchanged    int64 `json:"unchanged"`
	Deduplicated int64 `json:"deduplicated"`
	Rejected     int64 `json:"rejected"` // records that were left out, not single values
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

// StreamReport is the outcome of one stream in one destination. Its counts are sums over the run's passes.
type StreamReport struct {
	Stream      string           `json:"stream"`
	Table       string           `json:"table"`
	Destination string           `json:"destination,omitempty"`
	Backfill    string           `json:"backfill,omitempty"` // name of the backfill: see [Backfill.Name]
	Done        time.Time        `json:"done_at,omitzero"`   // end of a backfill that an earlier run completed
	Status      Status           `json:"status"`
	Verdict     Verdict          `json:"verdict,omitempty"` // verdict on the last finished pass
	Reasons     string           `json:"why,omitempty"`     // reasons for the verdict
	Counts      Counts           `json:"counts"`
	Missing     int64            `json:"missing,omitempty"` // live rows that the last pass did not contain
	Passes      int              `json:"passes"`
	Pages       int              `json:"pages"`
	Requests    int              `json:"requests"`
	Bytes       int64            `json:"bytes"`
	Duration    time.Duration    `json:"duration"`
	NotBefore   time.Time        `json:"not_before,omitzero"` // when a parked stream can be tried again
	Notices     []drift.Notice   `json:"notices,omitempty"`   // changes of the source, the gravest first
	Webhooks    *cursor.Webhooks `json:"webhooks,omitempty"`  // state of its webhook events; nil if there were none
	Checks      []checks.Result  `json:"checks,omitempty"`    // results of the checks of its table
	Unchecked   bool             `json:"-"`                   // at the end of a stream: its checks run at the end of the run
	Err         error            `json:"-"`

	ended bool // the end of a pass was committed
}

// Report is the outcome of a run.
type Report struct {
	Run      string            `json:"run"`
	Pipeline string            `json:"pipeline"`
	Source   string            `json:"source,omitempty"` // the source, if the pipeline has several
	Status   Status            `json:"status"`
	Started  time.Time         `json:"started_at"`
	Ended    time.Time         `json:"ended_at"`
	Requests int               `json:"requests"`           // requests to the source; a request counts once even if several destinations use its answer
	Forecast *forecast.Outlook `json:"forecast,omitempty"` // comparison with the forecast
	Streams  []StreamReport    `json:"streams"`
	Commands []Command         `json:"commands,omitempty"` // results of the commands that ran after the run
	Paused   string            `json:"paused,omitempty"`   // the pipeline's only source, if nothing was read because it is paused
	Err      error             `json:"-"`                  // the run's own error; nil if only streams had errors
	Allowed  int64             `json:"-"`                  // requests that the rate limit of the source allowed during the run; 0: unknown

	cause   error
	partial bool // Err concerns only some of the destinations
}

func (r Report) in(destination string) Report {
	elsewhere := func(s StreamReport) bool { return s.Destination != destination }
	r.Streams = slices.DeleteFunc(slices.Clone(r.Streams), elsewhere)
	return r
}

// Totals returns the sums over all streams and destinations.
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

// ExitCode returns the process's exit code after this run: 0 only if every stream is complete. // Invariant 14
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

// BaseErrors returns the errors about wrong base URLs, one per surface.
func (r Report) BaseErrors() []*BaseError { return baseErrors(r.Err) }

// Stop returns the cause with which a signal handler cancels a run's context.
func Stop(s os.Signal) error { return &stopError{signal: s} }

type stopError struct{ signal os.Signal }

// Error names the signal.
func (e *stopError) Error() string { return "stopped by " + e.signal.String() }

func (r *Report) summarise() {
	r.Status = StatusComplete
	if r.Err != nil {
		r.Status = StatusFailed
		if r.partial || errors.Is(r.Err, state.ErrLocked) {
			r.Status = StatusPartial
		}
	}
	if r.cause != nil {
		r.Status = StatusStopped
	}
	for _, s := range r.Streams {
		r.Status = worse(r.Status, s.Status)
	}
}

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

// Verdict is the degree to which a pass is known to be complete.
type Verdict = proof.Verdict

// The verdicts, best first.
const (
	Proven       = proof.Proven
	Consistent   = proof.Consistent
	Unproven     = proof.Unproven
	Contradicted = proof.Contradicted
)
