package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
)

// A secret in an error reaches neither the journal, nor the hub, nor the observers. errors.Is still works.
func TestRunsTellNoSecrets(t *testing.T) {
	const secret = "canary-4711-of-this-test"
	cause := errors.New("refused")
	trouble := func(where string) error { return fmt.Errorf("%s: dsn postgres://u:%s@db: %w", where, secret, cause) }
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		runs := 0
		p := Pipeline{Name: "p", Plan: plan(t, "@hourly", CatchUpOnce), Run: func(_ context.Context, o RunRequest) (pipeline.Report, error) {
			stream := pipeline.StreamReport{Stream: "crm.leads", Status: pipeline.StatusFailed, Reasons: secret, Err: trouble("stream"),
				Notices: []drift.Notice{{Severity: drift.Warned, Reason: secret}}}
			o.Progress(pipeline.Event{Kind: pipeline.EventEnd, Stream: "crm.leads", Report: &stream})
			if runs++; runs == 3 {
				panic(trouble("panic"))
			}
			rep := pipeline.Report{Run: o.Run, Pipeline: "p", Status: pipeline.StatusFailed, Err: trouble("report"), Streams: []pipeline.StreamReport{stream}}
			return rep, map[int]error{1: nil, 2: trouble("run")}[runs]
		}}
		r.redact = strings.NewReplacer(secret, "[redacted]").Replace
		r.start(p)
		time.Sleep(200 * time.Minute)
		s, _ := r.d.Hub().Status("p")
		shown := fmt.Sprintf("%+v %+v %s", s, *s.Last, s.LastErr)
		r.mu.Lock()
		notices := slices.Clone(r.notices)
		r.mu.Unlock()
		for _, n := range notices {
			shown += fmt.Sprintf("%+v\n", n)
			if e, ok := n.(RunEnded); ok {
				shown += fmt.Sprint(e.Err, e.Report.Err)
			}
		}
		ended := seen[RunEnded](r)
		require.Len(t, ended, 3)
		require.ErrorIs(t, ended[0].Report.Err, cause, "the redacted error still wraps its cause")
		require.ErrorIs(t, ended[1].Err, cause)
		r.d.Reload = func(context.Context) ([]Pipeline, error) { return nil, trouble("reload") }
		require.Error(t, r.d.ReloadNow(t.Context()))
		shown += fmt.Sprint(seen[Reloaded](r))
		require.NotContains(t, shown, secret)
		require.Contains(t, shown, "[redacted]", "there was something to hide")
		r.stop()
	})
}

func TestDeltasTellNoSecrets(t *testing.T) {
	const secret = "canary-4713-of-this-test"
	cause := errors.New("refused")
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var log strings.Builder
		ready := make(chan struct{})
		p := r.pipeline("p", Plan{})
		p.Concurrent = true
		p.Deltas = func(context.Context, []string) (Deltas, error) {
			<-ready
			return Deltas{}, fmt.Errorf("destination warehouse: dsn postgres://u:%s@db: %w", secret, cause)
		}
		r.start(p)
		r.d.Log = slog.New(slog.NewTextHandler(&log, nil))
		r.d.Redact = strings.NewReplacer(secret, "[redacted]").Replace
		close(ready)
		synctest.Wait()
		told := seen[DeltasApplied](r)
		require.NotEmpty(t, told)
		require.ErrorIs(t, told[0].Err, cause, "the redacted error still wraps its cause")
		s, _ := r.d.Hub().Status("p")
		require.NotNil(t, s.Deltas)
		r.stop()
		shown := fmt.Sprint(told[0].Err, s.Deltas.Err, log.String())
		require.NotContains(t, shown, secret)
		require.Equal(t, 3, strings.Count(shown, "[redacted]"), shown)
	})
}

func TestJournalKeepsNoSecrets(t *testing.T) {
	const secret = "canary-4712-of-this-test"
	r := newRig(t)
	ended := make(chan struct{})
	r.start(Pipeline{Name: "p", Run: func(_ context.Context, o RunRequest) (pipeline.Report, error) {
		defer close(ended)
		stream := pipeline.StreamReport{Stream: "crm.leads", Status: pipeline.StatusFailed, Reasons: secret, Err: errors.New(secret)}
		o.Progress(pipeline.Event{Kind: pipeline.EventEnd, Stream: "crm.leads", Report: &stream})
		return pipeline.Report{Run: o.Run, Status: pipeline.StatusFailed, Streams: []pipeline.StreamReport{stream}}, errors.New("dial " + secret)
	}})
	r.d.Redact = strings.NewReplacer(secret, "[redacted]").Replace
	_, err := r.d.RunNow("p", RunRequest{})
	require.NoError(t, err)
	<-ended
	r.stop()
	files, err := filepath.Glob(filepath.Join(r.dir, "journal.db*"))
	require.NoError(t, err)
	hidden := 0
	for _, path := range files {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NotContains(t, string(text), secret, path)
		hidden += strings.Count(string(text), "[redacted]")
	}
	require.GreaterOrEqual(t, hidden, 3, "error, report and log")
}
