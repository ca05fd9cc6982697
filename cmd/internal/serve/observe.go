package serve

import (
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// Observer is told what happens in the daemon: metrics, alerts, traces and
// lineage are made of it. Observe is called from many goroutines and must not
// block; a Notice is one of the types below, and a kind that an observer does not
// know it ignores.
type Observer interface {
	Observe(n Notice)
}

// Notice is something that happened: RunStarted, RunProgress, RunEnded,
// SlotSkipped, RunLate, WebhookSeen, DeltasApplied, Reloaded, AccessRefused or GrantsSeen.
type Notice interface{ notice() }

// RunStarted says that a run has begun.
type RunStarted struct {
	Pipeline string
	Run      string
	Trigger  Trigger
	Due      time.Time // of its slot; zero: it has none
	At       time.Time
}

// RunProgress is one step of one stream of a run.
type RunProgress struct {
	Pipeline string
	Run      string
	Event    pipeline.Event
}

// RunEnded says how a run has ended. Err is what kept the run itself from its
// work, and Report may be zero then; what single streams met stands in the
// report.
type RunEnded struct {
	Pipeline string
	Run      string
	Trigger  Trigger
	Due      time.Time
	Late     bool // its slot's first run did not begin in time
	Over     bool // its slot is done: false where it has none, where its run goes on later, or is another's
	At       time.Time
	Report   pipeline.Report
	Err      error
}

// SlotSkipped says that a slot was not run, and why.
type SlotSkipped struct {
	Pipeline string
	Due      time.Time
	Cause    Skip
	Why      string
	Count    int // slots that the notice stands for, the last of which is Due
}

// RunLate says that a slot's run was not made when it was due: nobody was there,
// or the one before had not ended. It is the alarm of a schedule that is not
// kept.
type RunLate struct {
	Pipeline string
	Due      time.Time
	At       time.Time
	Why      string
}

// WebhookSeen is the verdict on one delivery.
type WebhookSeen struct {
	Source  string
	Verdict string // stored, duplicate, conflict, captured, or why it was refused
	Status  int    // of the answer
	Took    time.Duration
}

// DeltasApplied says what an application of webhook events has come to.
type DeltasApplied struct {
	Pipeline string
	Deltas   Deltas
	Took     time.Duration
	Err      error
}

// Reloaded says that the configuration was read again. With an error the one
// before is still used.
type Reloaded struct {
	At      time.Time
	Err     error
	Pending []string // keys that only the next start goes by
}

// AccessRefused says that a request was refused because of its token.
type AccessRefused struct {
	From    string // the address of the connection, and the one that a proxy names
	Path    string // of the request
	Why     string
	Limited bool // too many wrong tokens came: this one was not evaluated
}

// GrantsSeen says how the sign-ins of all sources stand: those that are not in it are not
// in the configuration any more, except those of the sources in Unread.
type GrantsSeen struct {
	Grants []Grant
	Unread []string  // sources of which a sign-in could not be read
	At     time.Time // by the clock that the times of grants go by
}

// Grant is how one sign-in stands.
type Grant struct {
	Source, Surface string
	Renewed         time.Time // when the token came; zero: nobody has signed in
	Expires         time.Time // of the token; zero: not said
	Failing         time.Time // since when renewals have brought no token; zero: they do
	NoRefresh       bool      // nothing renews the token
	Trouble         string    // why it is of no use until somebody acts; "" if nothing is known
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

// observers tells all of them, in their order.
type observers []Observer

// Observe passes n on.
func (os observers) Observe(n Notice) {
	for _, o := range os {
		o.Observe(n)
	}
}
