package signal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/checks"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state"
)

const (
	slack = wire.Secret("slack://hook:slacksecret@webhook")
	mail  = wire.Secret("smtp://user:mailsecret@mail.example/?from=a@b.example&to=c@d.example")
)

type post struct {
	mu   sync.Mutex
	sent []string
	at   []time.Time
	down map[wire.Secret]error
}

func (p *post) send(u wire.Secret, text string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.down[u]; err != nil {
		return err
	}
	service, _, _ := strings.Cut(u.Reveal(), ":")
	p.sent, p.at = append(p.sent, service+": "+strings.TrimPrefix(text, "penstock\n")), append(p.at, time.Now())
	return nil
}

func (p *post) take() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	sent := p.sent
	p.sent = nil
	return sent
}

func (p *post) fail(u wire.Secret, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down[u] = err
}

type desk struct {
	*Alerts
	*post
	stop func()
}

var nightlyRouting = Routing{
	Route:     Route{To: []wire.Secret{slack}, On: Kinds()},
	Pipelines: map[string]PipelineRoute{"nightly": {Streams: []string{"crm.leads", "crm.deals"}}, "hourly": {Streams: []string{"crm.leads"}}},
	Sources:   []string{"main"},
}

func newDesk(t *testing.T, path string, r Routing) *desk {
	t.Helper()
	p := &post{down: map[wire.Secret]error{}}
	a, err := OpenAlerts(t.Context(), AlertOptions{Notes: (&state.Folder{Dir: filepath.Dir(path)}).Notes(), Log: slog.New(slog.DiscardHandler), Redact: wire.NewRedactor("hunter22").Redact, send: p.send})
	require.NoError(t, err)
	a.Route(r)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { a.Run(ctx) })
	return &desk{a, p, func() { cancel(); done.Wait() }}
}

func (d *desk) after(wait time.Duration) []string {
	time.Sleep(wait)
	synctest.Wait()
	return d.take()
}

func runEnds(s pipeline.StreamReport) serve.RunEnded {
	s.Stream, s.Destination = "crm.leads", "warehouse"
	status := pipeline.StatusComplete
	if s.Status != pipeline.StatusComplete {
		status = pipeline.StatusPartial
	}
	return serve.RunEnded{Pipeline: "nightly", Run: "r1", Trigger: serve.TriggerSchedule, Over: true, Report: pipeline.Report{Status: status, Streams: []pipeline.StreamReport{s}}}
}

func fails(why string) serve.RunEnded {
	return runEnds(pipeline.StreamReport{Status: pipeline.StatusFailed, Err: errors.New(why)})
}

func completes() serve.RunEnded {
	return runEnds(pipeline.StreamReport{Status: pipeline.StatusComplete, Verdict: pipeline.Proven})
}

func TestAlertsTellOnceUntilItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, filepath.Join(t.TempDir(), "alerts.json"), nightlyRouting)
		defer d.stop()
		for i := range 100 {
			d.Observe(fails(fmt.Sprintf("get /api/leads page %d: 502 bad gateway", i)))
			time.Sleep(time.Minute)
		}
		require.Equal(t, []string{"slack: pipeline nightly: failed\n  crm.leads in warehouse: get /api/leads page 0: 502 bad gateway"}, d.after(0))

		d.Observe(fails("401 unauthorized"))
		require.Equal(t, []string{"slack: pipeline nightly: failed\n  crm.leads in warehouse: 401 unauthorized"}, d.after(time.Hour))

		d.Observe(completes())
		require.Equal(t, []string{"slack: pipeline nightly: failed (resolved)"}, d.after(time.Hour))
		d.Observe(completes())
		require.Empty(t, d.after(48*time.Hour))
	})
}

func TestAlertsKinds(t *testing.T) {
	proven := pipeline.StreamReport{Status: pipeline.StatusComplete, Verdict: pipeline.Proven}
	resumed := completes()
	resumed.Trigger = serve.TriggerResume
	for _, tt := range []struct {
		name   string
		notice serve.Notice
		told   string
		clears serve.Notice
	}{
		{"held", runEnds(pipeline.StreamReport{Status: pipeline.StatusHeld, Err: &pipeline.HeldError{Reason: "120 rows are missing"}}),
			"pipeline nightly: held\n  crm.leads in warehouse: 120 rows are missing", runEnds(proven)},
		{"contradicted", runEnds(pipeline.StreamReport{Status: pipeline.StatusComplete, Verdict: pipeline.Contradicted, Reasons: "the API reports 10 records, and 9 arrived"}),
			"pipeline nightly: contradicted\n  crm.leads in warehouse: the API reports 10 records, and 9 arrived", runEnds(proven)},
		{"a check", runEnds(pipeline.StreamReport{Status: pipeline.StatusComplete, Verdict: pipeline.Proven, Checks: []checks.Result{
			{Name: "unique(id)", Outcome: checks.OK}, {Name: "not_null(email)", Outcome: checks.Failed, Failing: 1}, {Name: "typo", Outcome: checks.Errors, Detail: "no column"}, {Name: "amounts", Outcome: checks.Held}}}),
			"pipeline nightly: check\n  crm.leads in warehouse: not_null(email): 1 row fails; typo could not run: no column", runEnds(proven)},
		{"the run itself", serve.RunEnded{Pipeline: "nightly", Err: errors.New("open destination: password hunter22 refused")},
			"pipeline nightly: failed\n  open destination: password [redacted] refused", completes()},
		{"late", serve.RunLate{Pipeline: "nightly", Why: "the previous run has not ended"},
			"pipeline nightly: late\n  the previous run has not ended", completes()},
		{"late, and the run is resumed after a restart", serve.RunLate{Pipeline: "nightly", Why: "the daemon was not running"},
			"pipeline nightly: late\n  the daemon was not running", resumed},
		{"webhooks", serve.DeltasApplied{Pipeline: "nightly", Err: errors.New("commit events: disk full")},
			"pipeline nightly: failed\n  webhooks: commit events: disk full", serve.DeltasApplied{Pipeline: "nightly"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDesk(t, filepath.Join(t.TempDir(), "alerts.json"), nightlyRouting)
				defer d.stop()
				d.Observe(tt.notice)
				require.Equal(t, []string{"slack: " + tt.told}, d.after(time.Hour))
				d.Observe(tt.clears)
				head, _, _ := strings.Cut(tt.told, "\n")
				require.Equal(t, []string{"slack: " + head + " (resolved)"}, d.after(time.Hour))
			})
		})
	}
}

func TestAlertsLateIsNewsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, filepath.Join(t.TempDir(), "alerts.json"), nightlyRouting)
		defer d.stop()
		for i := range 50 {
			d.Observe(serve.RunLate{Pipeline: "nightly", Why: fmt.Sprintf("run co%c was still in progress", 'a'+rune(i%26))})
			time.Sleep(time.Hour)
		}
		require.Len(t, d.after(0), 1)
	})
}

func TestAlertsDriftIsNewsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, filepath.Join(t.TempDir(), "alerts.json"), nightlyRouting)
		defer d.stop()
		drift := runEnds(pipeline.StreamReport{Status: pipeline.StatusComplete, Verdict: pipeline.Proven, Notices: []drift.Notice{
			{Severity: drift.Noted, Reason: "new field x"}, {Severity: drift.Warned, Reason: "field phone is empty in 90 % of the rows"},
		}})
		d.Observe(drift)
		require.Equal(t, []string{"slack: pipeline nightly: drift\n  crm.leads: field phone is empty in 90 % of the rows"}, d.after(time.Hour))
		d.Observe(completes())
		require.Empty(t, d.after(48*time.Hour), "the end of a drift sends no message")
		d.Observe(drift)
		require.Len(t, d.after(time.Hour), 1, "the same drift is reported again after days")
	})
}

func TestAlertsWhatSaysNothingChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, filepath.Join(t.TempDir(), "alerts.json"), nightlyRouting)
		defer d.stop()
		d.Observe(serve.RunEnded{Pipeline: "nightly", Err: fmt.Errorf("sync: %w", state.ErrLocked)})
		d.Observe(serve.RunEnded{Pipeline: "nightly", Err: context.Canceled})
		require.Empty(t, d.after(time.Hour), "a lock or a stop is not a failure")

		d.Observe(serve.RunEnded{Pipeline: "nightly", Err: errors.New("disk full")})
		d.Observe(serve.DeltasApplied{Pipeline: "hourly", Err: errors.New("disk full")})
		require.Len(t, d.after(time.Hour), 1)
		d.Observe(serve.RunEnded{Pipeline: "nightly", Err: fmt.Errorf("sync: %w", state.ErrLocked)})
		d.Observe(serve.DeltasApplied{Pipeline: "hourly", Err: fmt.Errorf("apply: %w", state.ErrLocked)})
		require.Empty(t, d.after(time.Hour), "a lock or a stop does not end a failure")
		d.Observe(completes())
		d.Observe(serve.DeltasApplied{Pipeline: "hourly"})
		require.Len(t, d.after(time.Hour), 1)

		d.Observe(fails("502"))
		require.Len(t, d.after(time.Hour), 1)
		for _, s := range []pipeline.Status{pipeline.StatusParked, pipeline.StatusStopped, pipeline.StatusLagging} {
			d.Observe(runEnds(pipeline.StreamReport{Status: s}))
		}
		stopped := completes()
		stopped.Report.Status = pipeline.StatusStopped
		d.Observe(stopped)
		d.Observe(serve.RunEnded{Pipeline: "nightly", Report: pipeline.Report{Status: pipeline.StatusComplete, Streams: []pipeline.StreamReport{{Stream: "crm.deals", Destination: "warehouse", Status: pipeline.StatusComplete}}}})
		require.Empty(t, d.after(time.Hour), "none of these shows that crm.leads works")
		d.Observe(completes())
		require.Len(t, d.after(time.Hour), 1)
	})
}

// A failed command stays reported until a run has run the commands again.
func TestAlertsOfCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, filepath.Join(t.TempDir(), "alerts.json"), nightlyRouting)
		defer d.stop()
		failed := completes()
		failed.Report.AddCommands([]pipeline.Command{{Words: []string{"dbt", "build"}, Result: pipeline.CommandFailed, Error: "exit code 1"}}, errors.New("command dbt build: exit code 1"), nil)
		d.Observe(failed)
		sent := d.after(time.Hour)
		require.Len(t, sent, 1)
		require.Contains(t, sent[0], "command dbt build: exit code 1")
		d.Observe(completes())
		require.Empty(t, d.after(time.Hour), "a run of one stream, which runs no command")
		d.Observe(failed)
		require.Empty(t, d.after(time.Hour), "reported once")
		good := completes()
		good.Report.AddCommands([]pipeline.Command{{Words: []string{"dbt", "build"}, Result: pipeline.CommandOK}}, nil, nil)
		d.Observe(good)
		require.Len(t, d.after(time.Hour), 1)
	})
}

func TestAlertsDigest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, filepath.Join(t.TempDir(), "alerts.json"), nightlyRouting)
		defer d.stop()
		d.Observe(fails("502"))
		time.Sleep(10 * time.Second)
		hourly := fails("503")
		hourly.Pipeline = "hourly"
		d.Observe(hourly)
		d.Observe(serve.RunLate{Pipeline: "hourly", Why: "the daemon was not running"})
		require.Empty(t, d.after(DefaultDigest-11*time.Second))
		require.Equal(t, []string{"slack: pipeline hourly: failed\n  crm.leads in warehouse: 503\npipeline hourly: late\n  the daemon was not running\npipeline nightly: failed\n  crm.leads in warehouse: 502"}, d.after(2*time.Second))
	})
}

func TestAlertsDoNotFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDesk(t, filepath.Join(t.TempDir(), "alerts.json"), nightlyRouting)
		defer d.stop()
		const long = 4 * time.Hour
		for range int(long / (2 * time.Minute)) {
			d.Observe(fails("502"))
			time.Sleep(time.Minute)
			d.Observe(completes())
			time.Sleep(time.Minute)
		}
		sent := d.after(time.Hour)
		require.NotEmpty(t, sent)
		require.LessOrEqual(t, len(sent), int(long/quiet)+1)
		require.Equal(t, "slack: pipeline nightly: failed (resolved)", sent[len(sent)-1], "the last message states the present condition")
	})
}

func TestAlertsRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := nightlyRouting
		r.To = []wire.Secret{slack, mail}
		d := newDesk(t, filepath.Join(t.TempDir(), "alerts.json"), r)
		defer d.stop()
		d.fail(mail, errors.New("connection refused"))
		d.Observe(fails("502"))
		sent := d.after(time.Minute)
		require.Equal(t, []string{"slack: pipeline nightly: failed\n  crm.leads in warehouse: 502"}, sent, "targets do not wait for each other")
		d.fail(mail, nil)
		require.Equal(t, []string{"smtp: pipeline nightly: failed\n  crm.leads in warehouse: 502"}, d.after(time.Hour))

		// There is no message about a problem that is over before the target can be reached again.
		d.fail(mail, errors.New("connection refused"))
		d.Observe(fails("401"))
		d.after(time.Hour)
		d.Observe(fails("502"))
		d.after(time.Hour)
		d.fail(mail, nil)
		require.Empty(t, d.after(2*time.Hour))
	})
}

func TestAlertsNeverWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		never := make(chan struct{})
		a, err := OpenAlerts(t.Context(), AlertOptions{
			Notes: (&state.Folder{Dir: t.TempDir()}).Notes(), Log: slog.New(slog.DiscardHandler), Redact: func(s string) string { return s },
			send: func(wire.Secret, string) error { <-never; return nil },
		})
		require.NoError(t, err)
		a.Route(nightlyRouting)
		ctx, cancel := context.WithCancel(t.Context())
		var done sync.WaitGroup
		done.Go(func() { a.Run(ctx) })
		start := time.Now()
		for range 1000 {
			a.Observe(fails("502"))
			a.Observe(completes())
			a.Observe(fails("503"))
		}
		require.Zero(t, time.Since(start), "Observe returns at once")
		time.Sleep(time.Hour)
		start = time.Now()
		cancel()
		done.Wait()
		require.LessOrEqual(t, time.Since(start), stopPatience)
		close(never)
	})
}

func TestAlertsOutliveTheProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "alerts.json")
		d := newDesk(t, path, nightlyRouting)
		d.Observe(fails("502 for hunter22"))
		require.Len(t, d.after(time.Hour), 1)
		d.Observe(serve.RunLate{Pipeline: "nightly", Why: "the daemon was not running"}) // and the process ends before a message is sent
		d.stop()

		text, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, secret := range []string{"slacksecret", "hunter22", "hook"} {
			require.NotContains(t, string(text), secret) // Invariant 5
		}

		d = newDesk(t, path, nightlyRouting)
		require.Equal(t, []string{"slack: pipeline nightly: late\n  the daemon was not running"}, d.after(time.Hour))
		again := fails("502 for hunter22")
		again.Trigger, again.Over = serve.TriggerManual, false
		d.Observe(again)
		require.Empty(t, d.after(time.Hour), "the previous process has reported it")
		d.stop()

		d = newDesk(t, path, nightlyRouting)
		d.Observe(completes())
		require.Equal(t, []string{"slack: pipeline nightly: failed (resolved)\npipeline nightly: late (resolved)"}, d.after(time.Hour))
		d.stop()

		require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
		d = newDesk(t, path, nightlyRouting)
		d.Observe(fails("502"))
		require.Len(t, d.after(time.Hour), 1, "if the stored alerts cannot be read, no new alert is lost")
		d.stop()
	})
}

func TestAlertsRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := nightlyRouting
		r.On = []Kind{Failed}
		r.Pipelines = map[string]PipelineRoute{
			"nightly": {Streams: []string{"crm.leads"}},
			"hourly":  {Streams: []string{"crm.leads"}, Route: &Route{To: []wire.Secret{mail}, On: []Kind{Late}}},
			"silent":  {Streams: []string{"crm.leads"}, Route: &Route{}},
		}
		d := newDesk(t, filepath.Join(t.TempDir(), "alerts.json"), r)
		defer d.stop()
		for _, name := range []string{"nightly", "hourly", "silent", "unknown"} {
			n := fails("502")
			n.Pipeline = name
			d.Observe(n)
			d.Observe(serve.RunLate{Pipeline: name, Why: "the daemon was not running"})
		}
		require.ElementsMatch(t, []string{
			"slack: pipeline nightly: failed\n  crm.leads in warehouse: 502",
			"smtp: pipeline hourly: late\n  the daemon was not running",
		}, d.after(time.Hour))

		// The new configuration has no pipelines. There is no message that the failure of a removed pipeline is over.
		r.Pipelines = map[string]PipelineRoute{}
		d.Route(r)
		require.Empty(t, d.after(time.Hour))
		require.Empty(t, d.active)
	})
}

func TestAlertsSignature(t *testing.T) {
	const every = "slack: source main: signature\n  all deliveries are refused: signature; the secret or the scheme has changed: configure the new secret or scheme, or run 'penstock webhooks learn main'"
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "alerts.json")
		d := newDesk(t, path, nightlyRouting)
		refuse := func(n int, source string) {
			for range n {
				d.Observe(serve.WebhookSeen{Source: source, Verdict: "signature", Status: 401})
			}
		}
		accept := func() { d.Observe(serve.WebhookSeen{Source: "main", Verdict: "stored", Status: 200}) }
		refuse(refusedMany-1, "main")
		require.Empty(t, d.after(refusedIn+time.Second), "a few refused deliveries raise no alert")
		refuse(refusedMany-1, "main")
		refuse(1000, "nobody's")
		for range 100 {
			d.Observe(serve.WebhookSeen{Source: "main", Verdict: "full", Status: 503})
			accept()
		}
		require.Empty(t, d.after(time.Minute))
		refuse(1, "main")
		require.Equal(t, []string{"slack: source main: signature\n  some deliveries are refused, others are accepted: signature"}, d.after(30*time.Minute))
		refuse(5000, "main")
		require.Equal(t, []string{every}, d.after(30*time.Minute), "no delivery is accepted any more")
		accept()
		require.Equal(t, []string{"slack: source main: signature\n  some deliveries are refused, others are accepted: signature"}, d.after(30*time.Minute))
		refuse(1, "main")
		require.Empty(t, d.after(refusedOver-time.Minute))
		d.stop()
		d = newDesk(t, path, nightlyRouting)
		defer d.stop()
		require.Empty(t, d.after(time.Minute/2))
		require.Equal(t, []string{"slack: source main: signature (resolved)"}, d.after(3*time.Hour))
		refuse(refusedMany, "main")
		require.Equal(t, []string{every}, d.after(30*time.Minute), "the alert is sent at once if no delivery was ever accepted")
	})
}

func TestAlertTextIsBounded(t *testing.T) {
	ts := troubles{}
	for i := range 300 {
		ts[fmt.Sprintf("crm.s%03d", i)] = condition{Why: strings.Repeat("ä", 500) + "\nsecond line"}
	}
	text := ofPipeline("nightly", Failed).text(ts)
	require.Contains(t, text, "and 295 more")
	require.Less(t, len(text), mostItems*(mostWhy+30)+100)
	require.NotContains(t, text, "second line")
	many := make([]string, 500)
	for i := range many {
		many[i] = text
	}
	require.Less(t, len(message(many)), mostMessage+100)
}
