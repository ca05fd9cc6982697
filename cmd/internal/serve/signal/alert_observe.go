package signal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/checks"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/state"
)

var _ serve.Observer = (*Alerts)(nil)

// Keys of troubles that are not streams.
const (
	itemRun      = ""
	itemDeltas   = "webhooks"
	itemCommands = "commands of after"
)

// Observe raises and clears alerts.
func (a *Alerts) Observe(n serve.Notice) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch n := n.(type) {
	case serve.RunEnded:
		a.runEnded(n)
	case serve.RunLate:
		if tp := ofPipeline(n.Pipeline, Late); len(a.active[tp]) == 0 { // keep the first reason, because each reason names another run
			a.raise(tp, itemRun, n.Why)
		}
	case serve.DeltasApplied:
		if !keptOut(n.Err) {
			a.note(ofPipeline(n.Pipeline, Failed), itemDeltas, n.Err)
		}
	case serve.WebhookSeen:
		a.webhook(n)
	case serve.AccessRefused:
		a.access(n)
	case serve.GrantsSeen:
		a.grants(n)
	}
}

// access raises an alert about wrong tokens. A few wrong tokens may be typing errors. Many wrong tokens in a short time
// are attempts to guess a token.
func (a *Alerts) access(n serve.AccessRefused) {
	r, now := a.wrongTokens, time.Now()
	if r == nil || r.total < refusedMany && now.Sub(r.since) > refusedIn {
		r = &refusals{since: now}
		a.wrongTokens = r
	}
	r.last = now
	if r.total++; r.total == refusedMany {
		a.raise(ofDashboard, itemRun, "many wrong tokens were tried at the dashboard, the last from "+n.From+"; the log and the page Audit list them")
	}
}

func (a *Alerts) note(tp topic, item string, why error) {
	if why == nil {
		a.clear(tp, item)
		return
	}
	a.raise(tp, item, why.Error())
}

// keptOut reports whether work did not take place because another process has the lock, or because the daemon
// stops. Such an error neither raises nor clears an alert.
func keptOut(err error) bool {
	return errors.Is(err, state.ErrLocked) || errors.Is(err, context.Canceled)
}

func (a *Alerts) runEnded(n serve.RunEnded) {
	r := n.Report
	if r.Status == pipeline.StatusStopped || keptOut(n.Err) && len(r.Streams) == 0 {
		return // the run shows nothing: neither a failure, nor that an earlier failure is over
	}
	if n.Err == nil && n.Over {
		a.clear(ofPipeline(n.Pipeline, Late), itemRun)
	}
	a.note(ofPipeline(n.Pipeline, Failed), itemRun, runFailure(n))
	if len(r.Commands) > 0 { // otherwise the run does not show whether the failure of a command is over
		a.note(ofPipeline(n.Pipeline, Failed), itemCommands, commandFailure(r))
	}
	for _, s := range r.Streams {
		a.streamEnded(n.Pipeline, s)
	}
}

func runFailure(n serve.RunEnded) error {
	err := n.Report.Err
	if commandFailure(n.Report) != nil {
		err = nil // it is about the command
	}
	if err = errors.Join(n.Err, err); err != nil && !keptOut(err) {
		return err
	}
	failed := func(s pipeline.StreamReport) bool { return s.Status == pipeline.StatusFailed }
	if n.Report.Status == pipeline.StatusFailed && !slices.ContainsFunc(n.Report.Streams, failed) {
		return fmt.Errorf("run %s failed", n.Run)
	}
	return nil
}

// commandFailure returns why a command of `after` was not successful, or nil.
func commandFailure(r pipeline.Report) error {
	for _, c := range r.Commands {
		if c.Result != pipeline.CommandOK {
			return cmp.Or(r.Err, fmt.Errorf("command %s: %s", c, c.Error))
		}
	}
	return nil
}

// streamEnded raises and clears the alerts about a stream. If the stream was postponed or stopped, the alert about
// an earlier failure stays, because the report does not show whether the failure is over.
func (a *Alerts) streamEnded(name string, s pipeline.StreamReport) {
	item := s.Stream
	if s.Destination != "" {
		item += " in " + s.Destination
	}
	failed, held := ofPipeline(name, Failed), ofPipeline(name, Held)
	switch s.Status {
	case pipeline.StatusFailed:
		a.raise(failed, item, reason(s))
	case pipeline.StatusHeld:
		a.clear(failed, item)
		a.raise(held, item, reason(s))
	case pipeline.StatusComplete, pipeline.StatusUnavailable:
		a.clear(failed, item)
		a.clear(held, item)
	}
	switch s.Verdict {
	case "":
	case pipeline.Contradicted:
		a.raise(ofPipeline(name, Contradicted), item, s.Reasons)
	default:
		a.clear(ofPipeline(name, Contradicted), item)
	}
	a.checked(ofPipeline(name, CheckFailed), item, s)
	var drifts []string
	for _, d := range s.Notices {
		if d.Severity != drift.Noted {
			drifts = append(drifts, d.Reason)
		}
	}
	if len(drifts) > 0 {
		a.raise(ofPipeline(name, Drift), s.Stream, strings.Join(drifts, "; "))
	}
}

// checked raises and clears the alert about the checks of a stream. A check that has kept a commit back is left out,
// because the stream is held.
func (a *Alerts) checked(tp topic, item string, s pipeline.StreamReport) {
	var failed []string
	for _, c := range s.Checks {
		if !c.Good() && c.Outcome != checks.Held {
			failed = append(failed, c.String())
		}
	}
	switch {
	case failed != nil:
		a.raise(tp, item, strings.Join(failed, "; "))
	case len(s.Checks) > 0 || s.Status == pipeline.StatusComplete:
		a.clear(tp, item)
	}
}

func reason(s pipeline.StreamReport) string {
	if s.Err != nil {
		return s.Err.Error()
	}
	return s.Reasons
}

// A few refused deliveries may come from strangers. Many refused deliveries in a short time usually mean that the
// secret was changed only at the source, or only in the configuration.
const (
	refusedMany = 10
	refusedIn   = 10 * time.Minute
	refusedOver = time.Hour // after this time without a refusal, the problem counts as over
)

type refusals struct {
	since, last time.Time
	total       int
	inARow      int
	reasons     map[string]int // by reason; the receiver has a fixed set of reasons, so the map stays small
}

func (r *refusals) over(now time.Time) bool { return now.Sub(r.last) >= refusedOver }

func (r *refusals) all() bool { return r.inARow >= refusedMany }

func (a *Alerts) webhook(n serve.WebhookSeen) {
	r := a.refusals[n.Source]
	switch {
	case n.Status == http.StatusOK && r != nil:
		was := r.all()
		r.inARow = 0
		if was {
			a.refused(n.Source, r)
		}
	case n.Status == http.StatusUnauthorized && slices.Contains(a.routing.Sources, n.Source):
		now := time.Now()
		if r == nil || r.total < refusedMany && now.Sub(r.since) > refusedIn {
			r = &refusals{since: now, reasons: map[string]int{}}
			a.refusals[n.Source] = r
		}
		r.last = now
		r.reasons[n.Verdict]++
		r.total++
		r.inARow++
		if r.total == refusedMany || r.inARow == refusedMany { // later refusals are only counted, so that a flood of them costs little
			a.refused(n.Source, r)
		}
	}
}

// refused raises an alert about refused deliveries. If all are refused, the alert says what to do. No data is
// lost, because regular runs find the changes too.
func (a *Alerts) refused(source string, r *refusals) {
	reasons := strings.Join(slices.Sorted(maps.Keys(r.reasons)), ", ")
	why := fmt.Sprintf("some deliveries are refused, others are accepted: %s", reasons)
	if r.all() {
		why = fmt.Sprintf("all deliveries are refused: %s; the secret or the scheme has changed: configure the new secret or scheme, or run `penstock webhooks learn %s`", reasons, source)
	}
	a.raise(ofSource(source, Signature), itemRun, why)
}
