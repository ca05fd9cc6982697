package signal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/checks"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/drift"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/state"
)

func scrape(t *testing.T, m *Metrics) string {
	t.Helper()
	srv := httptest.NewServer(m.Handler(slog.New(slog.DiscardHandler)))
	defer srv.Close()
	resp, err := srv.Client().Get(srv.URL)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(text)
}

func newTestMetrics(read func() Reading) *Metrics {
	m := NewMetrics(Build{Version: "v1.2.3", Commit: "abc", Go: "go1.26"}, read)
	m.Configure([]string{"main"}, map[string][]string{"nightly": {"crm.leads", "crm.deals"}})
	return m
}

var ended = time.Date(2026, 3, 1, 2, 10, 0, 0, time.UTC)

func testReport() pipeline.Report {
	return pipeline.Report{
		Run: "r1", Pipeline: "nightly", Status: pipeline.StatusComplete, Started: ended.Add(-90 * time.Second), Ended: ended,
		Streams: []pipeline.StreamReport{{
			Stream: "crm.leads", Destination: "warehouse", Status: pipeline.StatusComplete, Verdict: pipeline.Proven, Duration: 2 * time.Second,
			Counts:  pipeline.Counts{Fetched: 10, Written: 3, Unchanged: 5, Deduplicated: 1, Rejected: 1, Deleted: 2},
			Notices: []drift.Notice{{Severity: drift.Warned, Kind: drift.NoticeNulls}},
			Checks:  []checks.Result{{Name: "unique(id)", Outcome: checks.OK}, {Name: "email", Outcome: checks.Failed}},
		}},
	}
}

func fill(m *Metrics) {
	at := ended.Add(-90 * time.Second)
	for _, n := range []serve.Notice{
		serve.RunStarted{Pipeline: "nightly", Due: at.Add(-2 * time.Second), At: at},
		serve.RunProgress{Pipeline: "nightly", Event: pipeline.Event{Kind: pipeline.EventPage, Records: 10, Bytes: 2048}},
		serve.RunProgress{Pipeline: "nightly", Event: pipeline.Event{Kind: pipeline.EventCommit, Records: 10, Bytes: 2048}},
		serve.RunEnded{Pipeline: "nightly", Over: true, Report: testReport()},
		serve.RunStarted{Pipeline: "nightly", Due: at.Add(-2 * time.Hour), At: at},
		serve.RunEnded{Pipeline: "nightly", Late: true, Over: true, Err: errors.New("open destination")},
		serve.RunStarted{Pipeline: "nightly"},
		serve.RunEnded{Pipeline: "nightly", Err: state.ErrLocked},
		serve.SlotSkipped{Pipeline: "nightly", Cause: serve.SkipPaused, Count: 3},
		serve.SlotSkipped{Pipeline: "nightly", Cause: serve.SkipMissed, Count: 2},
		serve.RunLate{Pipeline: "nightly"},
		serve.WebhookSeen{Source: "main", Verdict: "stored", Took: time.Millisecond},
		serve.DeltasApplied{Pipeline: "nightly", Deltas: serve.Deltas{Applied: 5, Waiting: 2, Oldest: ended, Unmapped: 1, Dead: 1, Lags: []time.Duration{time.Second, 2 * time.Second}}},
		serve.Reloaded{},
		serve.Reloaded{Err: errors.New("line 3")},
		serve.AccessRefused{}, serve.AccessRefused{Limited: true}, serve.AccessRefused{Limited: true},
	} {
		m.Observe(n)
	}
	m.Alert(Failed, "sent")
	m.Request("main", "v2", 200, time.Second)
	m.Request("main", "v2", 429, time.Second)
	m.Request("main", "v2", 0, time.Second)
}

// A run whose only source is paused is complete, but has read nothing. So the data is as old as before.
func TestRunThatReadsNothing(t *testing.T) {
	m := newTestMetrics(func() Reading { return Reading{} })
	m.Observe(serve.RunEnded{Pipeline: "nightly", Report: pipeline.Report{Status: pipeline.StatusComplete, Ended: ended, Paused: "main"}})
	require.NotContains(t, scrape(t, m), "penstock_run_last_success_timestamp_seconds{")
	m.Observe(serve.RunEnded{Pipeline: "nightly", Report: testReport()})
	require.Contains(t, scrape(t, m), "penstock_run_last_success_timestamp_seconds{")
}

func TestMetrics(t *testing.T) {
	m := newTestMetrics(func() Reading {
		return Reading{
			Rates: []Rate{{Source: "main", Surface: "v2", Limit: 100, Used: 42, InFlight: 3, Waits: -time.Second}},
			Inbox: []Inbox{{Source: "main", Dead: 7, Bytes: 700, Age: time.Minute}, {Source: "other"}},
		}
	})
	fill(m)
	text := scrape(t, m)
	for _, line := range []string{
		`penstock_build_info{commit="abc",go="go1.26",version="v1.2.3"} 1`,
		`penstock_runs_total{pipeline="nightly",status="complete"} 1`,
		`penstock_runs_running{pipeline="nightly"} 0`,
		`penstock_run_duration_seconds_sum{pipeline="nightly"} 90`,
		`penstock_run_last_success_timestamp_seconds{pipeline="nightly"} 1.7723310e+09`,
		`penstock_stream_last_success_timestamp_seconds{destination="warehouse",pipeline="nightly",stream="crm.leads"} 1.7723310e+09`,
		`penstock_rows_total{destination="warehouse",outcome="written",pipeline="nightly",stream="crm.leads"} 3`,
		`penstock_rows_total{destination="warehouse",outcome="deleted",pipeline="nightly",stream="crm.leads"} 2`,
		`penstock_records_read_total{pipeline="nightly"} 10`,
		`penstock_read_bytes_total{pipeline="nightly"} 2048`,
		`penstock_checks_total{check="email",destination="warehouse",pipeline="nightly",result="failed",stream="crm.leads"} 1`,
		`penstock_checks_total{check="unique(id)",destination="warehouse",pipeline="nightly",result="ok",stream="crm.leads"} 1`,
		`penstock_certificates_total{destination="warehouse",pipeline="nightly",verdict="proven"} 1`,
		`penstock_drift_notices_total{about="null_rate",pipeline="nightly",severity="warned"} 1`,
		`penstock_slots_total{outcome="ran",pipeline="nightly"} 1`,
		`penstock_slots_total{outcome="late",pipeline="nightly"} 1`,
		`penstock_slots_total{outcome="missed",pipeline="nightly"} 2`,
		`penstock_slots_total{outcome="skipped",pipeline="nightly"} 3`,
		`penstock_slot_delay_seconds_sum{pipeline="nightly"} 7202`,
		`penstock_runs_late_total{pipeline="nightly"} 1`,
		`penstock_runs_total{pipeline="nightly",status="failed"} 1`,
		`penstock_runs_total{pipeline="nightly",status="partial"} 1`,
		`penstock_events_total{outcome="applied",pipeline="nightly"} 5`,
		`penstock_events_total{outcome="dead",pipeline="nightly"} 1`,
		`penstock_events_waiting{pipeline="nightly"} 2`,
		`penstock_event_oldest_waiting_timestamp_seconds{pipeline="nightly"} 1.7723310e+09`,
		`penstock_configuration_reloads_total{outcome="failed"} 1`,
		`penstock_access_refused_total{outcome="wrong"} 1`,
		`penstock_access_refused_total{outcome="not evaluated"} 2`,
		`penstock_alerts_total{kind="failed",outcome="sent"} 1`,
		`penstock_webhook_deliveries_total{source="main",verdict="stored"} 1`,
		`penstock_event_applied_lag_seconds_sum{pipeline="nightly"} 3`,
		`penstock_source_requests_total{class="2xx",source="main",surface="v2"} 1`,
		`penstock_source_requests_total{class="none",source="main",surface="v2"} 1`,
		`penstock_source_throttled_total{source="main",surface="v2"} 1`,
		`penstock_rate_limit_requests_per_second{source="main",surface="v2"} 100`,
		`penstock_rate_used_requests_per_second{source="main",surface="v2"} 42`,
		`penstock_rate_wait_seconds{source="main",surface="v2"} 0`,
		`penstock_inbox_dead_letters{source="main"} 7`,
		`penstock_inbox_oldest_event_age_seconds{source="other"} 0`,
		`go_goroutines `, `process_open_fds `,
	} {
		require.Contains(t, text, "\n"+strings.ReplaceAll(line, "1.7723310e+09", "1.772331e+09"))
	}
}

// Names, units and help texts follow the conventions of Prometheus.
func TestMetricsAreNamedWell(t *testing.T) {
	m := newTestMetrics(func() Reading {
		return Reading{Rates: []Rate{{Source: "main", Surface: "v2"}}, Inbox: []Inbox{{Source: "main"}}}
	})
	fill(m)
	problems, err := testutil.GatherAndLint(m.registry)
	require.NoError(t, err)
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, namespace) { // metrics of Go and of the process are not ours
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// A hostile source uses ten thousand names that are not configured. The number of metrics stays small.
func TestMetricsStayBounded(t *testing.T) {
	m := newTestMetrics(nil)
	fill(m)
	odd := func(name string) {
		r := testReport()
		r.Status, r.Streams[0].Stream, r.Streams[0].Verdict = pipeline.Status(name), name, pipeline.Verdict(name)
		r.Streams[0].Notices[0] = drift.Notice{Kind: name, Severity: drift.Severity(name)}
		for _, n := range []serve.Notice{
			serve.RunStarted{Pipeline: name, Due: ended, At: ended}, serve.RunEnded{Pipeline: name, Report: r}, serve.RunEnded{Pipeline: "nightly", Report: r},
			serve.RunProgress{Pipeline: name, Event: pipeline.Event{Kind: pipeline.EventPage}},
			serve.SlotSkipped{Pipeline: name}, serve.RunLate{Pipeline: name}, serve.WebhookSeen{Source: name, Verdict: "stored"},
			serve.DeltasApplied{Pipeline: name, Deltas: serve.Deltas{Applied: 1, Lags: []time.Duration{1}}},
		} {
			m.Observe(n)
		}
	}
	odd("odd")
	for status := range 600 {
		m.Request("odd", "v2", status, 0)
	}
	before := series(t, m)
	for i := range 10_000 {
		odd(fmt.Sprintf("odd%d", i))
		m.Request(fmt.Sprintf("odd%d", i), "v2", i, 0)
	}
	require.Equal(t, before, series(t, m))
}

func series(t *testing.T, m *Metrics) int {
	t.Helper()
	n, err := testutil.GatherAndCount(m.registry)
	require.NoError(t, err)
	return n
}

func TestMetricsForgetPipelinesThatAreGone(t *testing.T) {
	m := newTestMetrics(nil)
	fill(m)
	require.Contains(t, scrape(t, m), `pipeline="nightly"`)
	m.Configure([]string{"main"}, map[string][]string{"hourly": {"crm.leads"}})
	text := scrape(t, m)
	require.NotContains(t, text, `pipeline="nightly"`)
	require.Contains(t, text, `penstock_runs_running{pipeline="hourly"} 0`)
}

func TestClass(t *testing.T) {
	for status, want := range map[int]string{0: "none", 99: "none", 100: "1xx", 204: "2xx", 302: "3xx", 429: "4xx", 599: "5xx", 600: "none", -1: "none"} {
		require.Equal(t, want, class(status), status)
	}
}

// Each query of the example dashboard uses metrics and labels that exist.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "penstock", "deploy", "grafana-dashboard.json"))
	require.NoError(t, err)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &board))
	m := newTestMetrics(func() Reading {
		return Reading{Rates: []Rate{{Source: "main", Surface: "v2"}}, Inbox: []Inbox{{Source: "main"}}}
	})
	fill(m)
	exposed := scrape(t, m)
	word := regexp.MustCompile(`\b(?:penstock|go|process)_[a-z0-9_]+`)
	label := regexp.MustCompile(`by \(([a-z, ]+)\)`)
	queries, used := 0, map[string]bool{}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			queries++
			names := word.FindAllString(target.Expr, -1)
			require.NotEmpty(t, names, target.Expr)
			for _, name := range names {
				used[strings.TrimSuffix(name, "_bucket")] = true
				series := regexp.MustCompile(`(?m)^` + name + `(\{[^}]*\})? .*$`).FindString(exposed)
				require.NotEmpty(t, series, "%s: there is no metric %s", p.Title, name)
				for _, by := range label.FindAllStringSubmatch(target.Expr, -1) {
					for _, l := range strings.Split(by[1], ", ") {
						require.Contains(t, series, l+"=", "%s: %s has no label %s", p.Title, name, l)
					}
				}
			}
		}
	}
	require.Greater(t, queries, 20)
	require.Greater(t, len(used), 20)
}

// The run of one slot is stopped twice and resumed. Another slot is skipped, because another process runs its
// pipeline.
func TestMetricsCountASlotOnce(t *testing.T) {
	m, due := newTestMetrics(nil), ended
	stopped := serve.RunEnded{Pipeline: "nightly", Due: due, Report: pipeline.Report{Status: pipeline.StatusStopped}}
	for _, n := range []serve.Notice{
		serve.RunStarted{Pipeline: "nightly", Trigger: serve.TriggerSchedule, Due: due, At: due},
		stopped,
		serve.RunStarted{Pipeline: "nightly", Trigger: serve.TriggerResume, Due: due, At: due.Add(time.Hour)},
		stopped,
		serve.RunStarted{Pipeline: "nightly", Trigger: serve.TriggerResume, Due: due, At: due.Add(2 * time.Hour)},
		serve.RunEnded{Pipeline: "nightly", Due: due, Over: true, Report: pipeline.Report{Status: pipeline.StatusComplete}},
		serve.RunStarted{Pipeline: "nightly", Trigger: serve.TriggerSchedule, Due: due, At: due},
		serve.SlotSkipped{Pipeline: "nightly", Due: due, Cause: serve.SkipLocked, Count: 1},
		serve.RunEnded{Pipeline: "nightly", Due: due, Err: state.ErrLocked},
	} {
		m.Observe(n)
	}
	text := scrape(t, m)
	require.Contains(t, text, `penstock_slots_total{outcome="ran",pipeline="nightly"} 1`)
	require.Contains(t, text, `penstock_slots_total{outcome="skipped",pipeline="nightly"} 1`)
	require.NotContains(t, text, `outcome="late"`)
	require.Contains(t, text, `penstock_slot_delay_seconds_count{pipeline="nightly"} 2`)
}
