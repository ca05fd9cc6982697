package signal

import (
	"net/http"
	"strconv"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/checks"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/cmd/internal/serve"
)

var _ serve.Observer = (*Metrics)(nil)

// The outcomes of a slot.
const (
	slotRan     = "ran"
	slotLate    = "late"
	slotSkipped = "skipped" // not run, on purpose or because another run does its work
	slotMissed  = "missed"  // should have run, but did not
)

// Observe updates the metrics.
func (m *Metrics) Observe(n serve.Notice) {
	switch n := n.(type) {
	case serve.RunStarted:
		m.runStarted(n)
	case serve.RunProgress:
		m.progress(n.Pipeline, n.Event)
	case serve.RunEnded:
		m.runEnded(n)
	case serve.SlotSkipped:
		m.slots.WithLabelValues(m.pipeline(n.Pipeline), skipped(n.Cause)).Add(float64(max(1, n.Count)))
	case serve.RunLate:
		m.lateRuns.WithLabelValues(m.pipeline(n.Pipeline)).Inc()
	case serve.WebhookSeen:
		m.deliveries.WithLabelValues(m.source(n.Source), n.Verdict).Inc()
		m.deliveryDuration.WithLabelValues(m.source(n.Source)).Observe(n.Took.Seconds())
	case serve.DeltasApplied:
		m.deltasApplied(n)
	case serve.Reloaded:
		m.reloads.WithLabelValues(outcome(n.Err)).Inc()
	case serve.AccessRefused:
		m.refused.WithLabelValues(evaluated(n.Limited)).Inc()
	case serve.GrantsSeen:
		m.grantsSeen(n)
	}
}

func evaluated(limited bool) string {
	if limited {
		return "not evaluated"
	}
	return "wrong"
}

func outcome(err error) string {
	if err != nil {
		return "failed"
	}
	return "done"
}

func (m *Metrics) runStarted(n serve.RunStarted) {
	p := m.pipeline(n.Pipeline)
	m.running.WithLabelValues(p).Inc()
	if n.Due.IsZero() || n.Trigger == serve.TriggerResume {
		return // the run has no slot, or its delay was counted when it first began
	}
	m.slotDelay.WithLabelValues(p).Observe(max(0, n.At.Sub(n.Due).Seconds()))
}

func skipped(why serve.Skip) string {
	if why.Missed() {
		return slotMissed
	}
	return slotSkipped
}

// ranSlot counts a slot that was run. A run that was stopped and is resumed, perhaps by another process, counts
// when it finally ends.
func (m *Metrics) ranSlot(n serve.RunEnded) {
	switch {
	case !n.Over:
	case n.Late:
		m.slots.WithLabelValues(m.pipeline(n.Pipeline), slotLate).Inc()
	default:
		m.slots.WithLabelValues(m.pipeline(n.Pipeline), slotRan).Inc()
	}
}

func (m *Metrics) progress(name string, e pipeline.Event) {
	if e.Kind != pipeline.EventPage {
		return
	}
	p := m.pipeline(name)
	m.pages.WithLabelValues(p).Inc()
	m.records.WithLabelValues(p).Add(float64(max(0, e.Records)))
	m.bytes.WithLabelValues(p).Add(float64(max(0, e.Bytes)))
}

func (m *Metrics) runEnded(n serve.RunEnded) {
	p, r := m.pipeline(n.Pipeline), n.Report
	status := r.Status
	if n.Err != nil && len(r.Streams) == 0 {
		status = pipeline.StatusFailed
		if keptOut(n.Err) {
			status = pipeline.StatusPartial // another process has the lock, or the daemon is stopping
		}
	}
	m.ranSlot(n)
	m.running.WithLabelValues(p).Dec()
	m.runs.WithLabelValues(p, statusLabel(status)).Inc()
	if !r.Started.IsZero() {
		m.runDuration.WithLabelValues(p).Observe(max(0, r.Ended.Sub(r.Started).Seconds()))
	}
	if status == pipeline.StatusComplete && len(r.Streams) > 0 { // a run whose sources are paused has read nothing // Invariant 14
		m.runSuccess.WithLabelValues(p).Set(unix(r.Ended))
	}
	for _, s := range r.Streams {
		m.streamEnded(n.Pipeline, r.Ended, s)
	}
	for _, c := range r.Commands {
		m.commands.WithLabelValues(m.pipeline(n.Pipeline), string(c.Result)).Inc()
	}
}

func (m *Metrics) streamEnded(name string, ended time.Time, s pipeline.StreamReport) {
	p, stream := m.pipeline(name), m.stream(name, s.Stream)
	if s.Status == pipeline.StatusComplete {
		m.streamSuccess.WithLabelValues(p, stream, s.Destination).Set(unix(ended))
	}
	m.streamDuration.WithLabelValues(p, stream).Set(s.Duration.Seconds())
	for outcome, n := range map[string]int64{
		"written": s.Counts.Written, "unchanged": s.Counts.Unchanged, "deduplicated": s.Counts.Deduplicated,
		"rejected": s.Counts.Rejected, "deleted": s.Counts.Deleted,
	} {
		if n > 0 {
			m.rows.WithLabelValues(p, stream, s.Destination, outcome).Add(float64(n))
		}
	}
	if s.Verdict != "" {
		m.certificates.WithLabelValues(p, s.Destination, verdictLabel(s.Verdict)).Inc()
	}
	for _, c := range s.Checks { // the names of checks come from the configuration, so there are few of them
		result := oneOf(string(c.Outcome), string(checks.OK), string(checks.Failed), string(checks.Held), string(checks.Errors))
		m.checks.WithLabelValues(p, stream, s.Destination, c.Name, result).Inc()
	}
	for _, n := range s.Notices {
		about := oneOf(n.Kind, drift.NoticeNew, drift.NoticeVanished, drift.NoticeType, drift.NoticeNulls,
			drift.NoticeCount, drift.NoticePage, drift.NoticeEnvelope, drift.NoticeIncremental, drift.NoticeFilter)
		severity := oneOf(string(n.Severity), string(drift.Noted), string(drift.Warned), string(drift.Blocking))
		m.notices.WithLabelValues(p, about, severity).Inc()
	}
}

func (m *Metrics) deltasApplied(n serve.DeltasApplied) {
	p := m.pipeline(n.Pipeline)
	for outcome, count := range map[string]int{"applied": n.Deltas.Applied, "unmapped": n.Deltas.Unmapped, "dead": n.Deltas.Dead} {
		if count > 0 {
			m.events.WithLabelValues(p, outcome).Add(float64(count))
		}
	}
	for _, lag := range n.Deltas.Lags {
		m.appliedLag.WithLabelValues(p).Observe(max(0, lag.Seconds()))
	}
	m.behind.WithLabelValues(p).Set(float64(n.Deltas.Waiting))
	oldest := 0.0
	if !n.Deltas.Oldest.IsZero() {
		oldest = unix(n.Deltas.Oldest)
	}
	m.oldest.WithLabelValues(p).Set(oldest)
}

// Request counts a request to a source, and how long it took. The parameter status is 0 if there was no response.
func (m *Metrics) Request(source, surface string, status int, took time.Duration) {
	source = m.source(source)
	m.requests.WithLabelValues(source, surface, class(status)).Inc()
	if status == http.StatusTooManyRequests {
		m.throttled.WithLabelValues(source, surface).Inc()
	}
	if status > 0 {
		m.requestDuration.WithLabelValues(source, surface).Observe(took.Seconds())
	}
}

// Alert counts a message about a kind of problem, by outcome.
func (m *Metrics) Alert(k Kind, outcome string) { m.alerts.WithLabelValues(string(k), outcome).Inc() }

func class(status int) string {
	if status < 100 || status > 599 {
		return "none"
	}
	return strconv.Itoa(status/100) + "xx"
}

func statusLabel(s pipeline.Status) string {
	return oneOf(string(s), string(pipeline.StatusComplete), string(pipeline.StatusPartial), string(pipeline.StatusFailed), string(pipeline.StatusStopped))
}

func verdictLabel(v pipeline.Verdict) string {
	return oneOf(string(v), string(pipeline.Proven), string(pipeline.Consistent), string(pipeline.Unproven), string(pipeline.Contradicted))
}

func unix(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
