package signal

import (
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Metrics are the Prometheus metrics of the daemon. Each label has a limited set of values: the name of a
// pipeline, stream or source that is not configured becomes "other", and the other labels have fixed values.
// Metrics is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	mu      sync.RWMutex
	streams map[string]map[string]bool // configured streams, by pipeline
	sources map[string]bool

	runs, rows, records, bytes, pages  *prometheus.CounterVec
	requests, throttled                *prometheus.CounterVec
	certificates, notices, slots       *prometheus.CounterVec
	checks, commands                   *prometheus.CounterVec
	deliveries, events, alerts         *prometheus.CounterVec
	lateRuns, reloads, refused         *prometheus.CounterVec
	running, runSuccess, streamSuccess *prometheus.GaugeVec
	streamDuration, behind, oldest     *prometheus.GaugeVec
	runDuration, slotDelay             *prometheus.HistogramVec
	requestDuration, deliveryDuration  *prometheus.HistogramVec
	appliedLag                         *prometheus.HistogramVec
	grantUsable, grantExpires          *prometheus.GaugeVec
	grantRenewed, grantFailing         *prometheus.GaugeVec
}

// Reading has the values that are read for each scrape.
type Reading struct {
	Rates []Rate
	Inbox []Inbox
	Units *Units // nil if the state is a folder, or if the units cannot be read
	Slots []Slots
}

// Units counts the units that have not ended. It includes the units of all processes that share the state.
type Units struct {
	Waiting, Later, Running int           // Later counts the units that wait until a set time
	Oldest                  time.Duration // time since the run of the oldest waiting unit began; 0 if none waits
}

// Slots counts the worker slots of this process for one queue of units.
type Slots struct {
	Queue     string
	All, Used int
}

// Rate is the rate limit of one credential, and how much of it is used.
type Rate struct {
	Source, Surface string
	Limit           float64 // requests per second, configured or learned; 0 while unknown
	Used            float64 // recent requests per second
	InFlight        int
	Waits           time.Duration // time until the next request may be sent; 0 if it may be sent now
}

// Inbox describes the events of a source that are in the inbox: they are not yet applied in every destination.
type Inbox struct {
	Source string
	Bytes  int64
	Dead   int64         // number of dead letters
	Age    time.Duration // age of the oldest event; 0 if there is none
}

// Build identifies the running program.
type Build struct{ Version, Commit, Go string }

const other = "other"

// Buckets of histograms, in seconds. Runs take seconds to hours. Events should be applied within seconds.
var (
	runBuckets     = []float64{1, 5, 15, 60, 180, 600, 1800, 3600, 7200, 14400, 28800}
	lagBuckets     = []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200}
	requestBuckets = []float64{.025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
)

// NewMetrics returns metrics with their own registry. Each scrape calls the given function, which must return quickly.
// The function may be nil.
func NewMetrics(b Build, read func() Reading) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.makeRuns()
	m.makeSource()
	m.makeEvents()
	m.makeGrants()
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		buildInfo(b),
	)
	if read != nil {
		m.registry.MustRegister(readings(read))
	}
	return m
}

func (m *Metrics) makeRuns() {
	m.runs = m.counter("runs_total", "Runs that have ended, by status.", "pipeline", "status")
	m.running = m.gauge("runs_running", "Runs in progress.", "pipeline")
	m.runDuration = m.histogram("run_duration_seconds", "Duration of runs.", runBuckets, "pipeline")
	m.runSuccess = m.gauge("run_last_success_timestamp_seconds", "When the last complete run ended that has read a stream.", "pipeline")
	m.streamSuccess = m.gauge("stream_last_success_timestamp_seconds", "End of the last run that read the stream completely.", "pipeline", "stream", "destination")
	m.streamDuration = m.gauge("stream_last_duration_seconds", "Duration of the stream in its last run.", "pipeline", "stream")
	m.rows = m.counter("rows_total", "Records by outcome (written, unchanged, deduplicated, rejected), and rows marked as deleted (deleted).", "pipeline", "stream", "destination", "outcome")
	m.records = m.counter("records_read_total", "Records read.", "pipeline")
	m.bytes = m.counter("read_bytes_total", "Bytes of the pages read.", "pipeline")
	m.pages = m.counter("pages_read_total", "Pages read.", "pipeline")
	m.certificates = m.counter("certificates_total", "Passes by the verdict of their certificate.", "pipeline", "destination", "verdict")
	m.notices = m.counter("drift_notices_total", "Notices about changes of a source, such as a field that disappeared, by kind and severity.", "pipeline", "about", "severity")
	m.checks = m.counter("checks_total", "Checks of the data by result: ok, failed, held (rows were held back), error (the check could not run).", "pipeline", "stream", "destination", "check", "result")
	m.commands = m.counter("commands_total", "Commands of `after` by result: ok, failed, timeout, stopped (together with the run).", "pipeline", "result")
	m.slots = m.counter("slots_total", "Slots of schedules by outcome: ran (in time), late, skipped (on purpose, or because another run covers the slot), missed.", "pipeline", "outcome")
	m.lateRuns = m.counter("runs_late_total", "Runs that did not start when they were due.", "pipeline")
	m.reloads = m.counter("configuration_reloads_total", "Reloads of the configuration, by outcome: done, failed.", "outcome")
	m.slotDelay = m.histogram("slot_delay_seconds", "Time from a slot to the start of its run.", lagBuckets, "pipeline")
}

func (m *Metrics) makeSource() {
	m.requests = m.counter("source_requests_total", "Requests sent, by class of the response status, such as 2xx; the class none means no response.", "source", "surface", "class")
	m.throttled = m.counter("source_throttled_total", "Requests that got status 429.", "source", "surface")
	m.requestDuration = m.histogram("source_request_duration_seconds", "Time from sending a request until its response was read.", requestBuckets, "source", "surface")
}

func (m *Metrics) makeEvents() {
	m.deliveries = m.counter("webhook_deliveries_total", "Webhook deliveries by the result of their verification.", "source", "verdict")
	m.deliveryDuration = m.histogram("webhook_delivery_duration_seconds", "Time until a webhook delivery was answered.", requestBuckets, "source")
	m.events = m.counter("events_total", "Webhook events by outcome: applied, unmapped (they belong to no stream), dead (they could not be applied).", "pipeline", "outcome")
	m.behind = m.gauge("events_waiting", "Verified events that are not applied yet.", "pipeline")
	m.oldest = m.gauge("event_oldest_waiting_timestamp_seconds", "When the oldest waiting event was delivered; 0 if none waits.", "pipeline")
	m.appliedLag = m.histogram("event_applied_lag_seconds", "Time from the delivery of an event to the commit of its rows.", lagBuckets, "pipeline")
	m.refused = m.counter("access_refused_total", "Refused access tokens by outcome: wrong, or not evaluated (after too many wrong tokens).", "outcome")
	m.alerts = m.counter("alerts_total", "Alerts by kind and outcome.", "kind", "outcome")
}

// Handler serves scrapes.
func (m *Metrics) Handler(log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ErrorHandling:       promhttp.ContinueOnError,
		Timeout:             10 * time.Second,
		MaxRequestsInFlight: 4,
	})
}

// Configure sets the sources, and the pipelines with their streams. Only their names become values of labels. The
// metrics of removed pipelines are dropped.
func (m *Metrics) Configure(sources []string, pipelines map[string][]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.streams {
		if _, stays := pipelines[name]; !stays {
			m.forget(name)
		}
	}
	m.sources, m.streams = set(sources), map[string]map[string]bool{}
	for name, streams := range pipelines {
		m.streams[name] = set(streams)
		m.running.WithLabelValues(name).Add(0) // so that the metric exists before the first run
	}
}

func (m *Metrics) forget(pipeline string) {
	of := prometheus.Labels{"pipeline": pipeline}
	for _, v := range []interface{ DeletePartialMatch(prometheus.Labels) int }{
		m.runs, m.running, m.runDuration, m.runSuccess, m.streamSuccess, m.streamDuration, m.rows, m.records,
		m.bytes, m.pages, m.certificates, m.notices, m.checks, m.commands, m.slots, m.slotDelay, m.lateRuns, m.events, m.behind, m.oldest, m.appliedLag,
	} {
		v.DeletePartialMatch(of)
	}
}

func (m *Metrics) pipeline(name string) string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if _, ok := m.streams[name]; ok {
		return name
	}
	return other
}

func (m *Metrics) stream(pipeline, name string) string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.streams[pipeline][name] {
		return name
	}
	return other
}

func (m *Metrics) source(name string) string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.sources[name] {
		return name
	}
	return other
}

func oneOf(word string, known ...string) string {
	for _, k := range known {
		if word == k {
			return word
		}
	}
	return other
}

func set(words []string) map[string]bool {
	s := make(map[string]bool, len(words))
	for _, w := range words {
		s[w] = true
	}
	return s
}
