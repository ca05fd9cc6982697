package serve

import (
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// Observer receives notices of what happens in the daemon, for metrics, alerts, traces and lineage. Many
// goroutines call Observe, and it must not block. An observer ignores types of Notice that it does not know.
type Observer interface {
	Observe(n Notice)
}

// Notice says what has happened in the daemon. Its types are RunStarted, RunProgress, RunEnded, SlotSkipped,
// RunLate, WebhookSeen, DeltasApplied, Reloaded, AccessRefused and GrantsSeen.
type Notice interface{ notice() }

// RunStarted reports that a run has begun.
type RunStarted struct {
	Pipeline string
	Run      string
	Trigger  Trigger
	Due      time.Time // when its slot was due; zero: the run has no slot
	At       time.Time
}

// RunProgress reports an event of a run.
type RunProgress struct {
	Pipeline string
	Run      string
	Event    pipeline.Event
}

// RunEnded reports how a run has ended. Err is the error of the run itself; Report may then be zero. Errors of
// single streams are in Report.
type RunEnded struct {
	Pipeline string
	Run      string
	Trigger  Trigger
	Due      time.Time
	Late     bool // the run began too late for its slot; false for a resumed run
	Over     bool // the slot is done; false if the run has no slot, or if a process continues the run later
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
	Count    int // number of skipped slots that this notice reports; Due is the last of them
}

// RunLate reports that a slot's run did not start when it was due, because the daemon was not running or
// the previous run had not ended.
type RunLate struct {
	Pipeline string
	Due      time.Time
	At       time.Time
	Why      string
}

// WebhookSeen reports what the receiver has done with one delivery.
type WebhookSeen struct {
	Source  string
	Verdict string // stored, duplicate, conflict, captured, or why the delivery was refused
	Status  int    // status of the response
	Took    time.Duration
}

// DeltasApplied reports that webhook events were applied, and the result.
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
	Limited bool // the token was not compared, because there were too many wrong tokens
}

// GrantsSeen reports the state of the sign-ins of all sources. A sign-in that is not in Grants is no longer
// configured, unless its source is in Unread.
type GrantsSeen struct {
	Grants []Grant
	Unread []string  // sources whose sign-ins could not be read
	At     time.Time // when the state was read, on the same clock as the times in Grants
}

// Grant is the state of one sign-in.
type Grant struct {
	Source, Surface string
	Renewed         time.Time // when the token was issued; zero: no sign-in yet
	Expires         time.Time // when the token expires; zero: unknown
	Failing         time.Time // when renewals began to fail; zero: they succeed
	NoRefresh       bool      // there is no refresh token
	Trouble         string    // why a person must sign in again; "" if the sign-in can be used
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
