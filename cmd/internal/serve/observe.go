package serve

import (
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// Observer receives what happens in the daemon, for metrics, alerts, traces and lineage. Observe is
// called from many goroutines and must not block. Observers ignore the types of Notice that they
// do not know.
type Observer interface {
	Observe(n Notice)
}

// Notice is an event in the daemon: RunStarted, RunProgress, RunEnded,
// SlotSkipped, RunLate, WebhookSeen, DeltasApplied, Reloaded, AccessRefused or GrantsSeen.
type Notice interface{ notice() }

// RunStarted reports that a run has begun.
type RunStarted struct {
	Pipeline string
	Run      string
	Trigger  Trigger
	Due      time.Time // of its slot; zero: the run has no slot
	At       time.Time
}

// RunProgress reports one event of a stream of a run.
type RunProgress struct {
	Pipeline string
	Run      string
	Event    pipeline.Event
}

// RunEnded reports how a run ended. Err is the error of the run itself; Report may then be zero.
// Errors of single streams are in the report.
type RunEnded struct {
	Pipeline string
	Run      string
	Trigger  Trigger
	Due      time.Time
	Late     bool // the run is the first one for its slot, and began too late
	Over     bool // the slot is done; false if the run has no slot, or if this or another process continues the run later
	At       time.Time
	Report   pipeline.Report
	Err      error
}

// SlotSkipped reports that a slot was not run, and why.
type SlotSkipped struct {
	Pipeline string
	Due      time.Time
	Cause    Skip
	Why      string
	Count    int // number of slots that the notice covers; Due is the last of them
}

// RunLate reports that a slot's run did not start when it was due, because the daemon was not running or
// the previous run had not ended.
type RunLate struct {
	Pipeline string
	Due      time.Time
	At       time.Time
	Why      string
}

// WebhookSeen is the verdict on one delivery.
type WebhookSeen struct {
	Source  string
	Verdict string // stored, duplicate, conflict, captured, or the reason for the refusal
	Status  int    // status of the response
	Took    time.Duration
}

// DeltasApplied reports the result of an application of webhook events.
type DeltasApplied struct {
	Pipeline string
	Deltas   Deltas
	Took     time.Duration
	Err      error
}

// Reloaded reports a reload of the configuration. After an error, the previous configuration stays in
// use.
type Reloaded struct {
	At      time.Time
	Err     error
	Pending []string // changed keys that need a restart
}

// AccessRefused reports that a request was refused because of its token.
type AccessRefused struct {
	From    string // address of the connection, and the address that a proxy reports
	Path    string // path of the request
	Why     string
	Limited bool // the token was not checked, because there were too many wrong tokens
}

// GrantsSeen reports the state of the sign-ins of all sources. A sign-in that is missing here is no
// longer configured, unless its source is in Unread.
type GrantsSeen struct {
	Grants []Grant
	Unread []string  // sources with a sign-in that could not be read
	At     time.Time // when the state was read, by the clock of the times in Grants
}

// Grant is the state of one sign-in.
type Grant struct {
	Source, Surface string
	Renewed         time.Time // when the token was issued; zero: no sign-in yet
	Expires         time.Time // when the token expires; zero: unknown
	Failing         time.Time // since when renewals have failed; zero: they succeed
	NoRefresh       bool      // there is no refresh token
	Trouble         string    // why the sign-in cannot be used until a person signs in again; "" if it can be used
}

func (GrantsSeen) notice()    {}
func (AccessRefused) notice() {}
func (RunStarted) notice()    {}
func (RunProgress) notice()   {}
func (RunEnded) notice()      {}
func (SlotSkipped) notice()   {}
func (RunLate) notice()       {}
func (WebhookSeen) notice()   {}
func (DeltasApplied) notice() {}
func (Reloaded) notice()      {}

type observers []Observer

// Observe calls Observe of each observer.
func (os observers) Observe(n Notice) {
	for _, o := range os {
		o.Observe(n)
	}
}
