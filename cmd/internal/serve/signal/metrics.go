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

// Metrics counts what the daemon does, for Prometheus. Its labels are bounded:
// pipelines and streams are those of the configuration, everything else is
// "other"; the rest are the words of this project. It is safe for concurrent
// use.
type Metrics struct {
	registry *prometheus.Registry

	mu      sync.RWMutex
	streams map[string]map[string]bool // configured, by pipeline
	sources map[string]bool

	runs, rows, records, bytes, pages  *prometheus.CounterVec
	requests, throttled                *prometheus.CounterVec
	certificates, notices, slots       *prometheus.CounterVec
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

// Reading is where the daemon's books stand, asked for at each scrape.
type Reading struct {
	Rates []Rate
	Inbox []Inbox
}

// Rate is the budget of one credential.
type Rate struct {
	Source, Surface string
	Limit           float64 // requests a second, stated or learned; 0 while unknown
	Used            float64 // requests a second of late
	InFlight        int
	Waits           time.Duration // until a request may go; 0 while they go
}

// Inbox is what of a source's deliveries is not applied everywhere yet.
type Inbox struct {
	Source string
	Bytes  int64
	Dead   int64         // events that were given up and are kept
	Age    time.Duration // of the oldest event that is kept; 0 where there is none
}

// Build says what is running.
type Build struct{ Version, Commit, Go string }

// other is the label of what the configuration does not name.
const other = "other"

// Buckets in seconds: of runs, which last from seconds to hours, and of events,
// which should be in the tables within seconds.
var (
	runBuckets     = []float64{1, 5, 15, 60, 180, 600, 1800, 3600, 7200, 14400, 28800}
	lagBuckets     = []float64{.1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200}
	requestBuckets = []float64{.025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
)

// NewMetrics makes the metrics of a process, all in a registry of their own.
// read is asked at each scrape and must not take long; it may be nil.
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
		m.registry.MustRegister(books(read))
	}
	return m
}

func (m *Metrics) makeRuns() {
	m.runs = m.counter("runs_total", "Runs that have ended, by their status.", "pipeline", "status")
	m.running = m.gauge("runs_running", "Runs under way.", "pipeline")
	m.runDuration = m.histogram("run_duration_seconds", "How long runs took.", runBuckets, "pipeline")
	m.runSuccess = m.gauge("run_last_success_timestamp_seconds", "When the last complete run ended.", "pipeline")
	m.streamSuccess = m.gauge("stream_last_success_timestamp_seconds", "When the last run ended that read the stream to its end and committed all of it.", "pipeline", "stream", "destination")
	m.streamDuration = m.gauge("stream_last_duration_seconds", "How long the stream took in its last run.", "pipeline", "stream")
	m.rows = m.counter("rows_total", "Records by what became of them: written, unchanged, deduplicated, rejected; and rows deleted.", "pipeline", "stream", "destination", "outcome")
	m.records = m.counter("records_read_total", "Records that pages have brought.", "pipeline")
	m.bytes = m.counter("read_bytes_total", "Bytes of the pages' bodies.", "pipeline")
	m.pages = m.counter("pages_read_total", "Pages read.", "pipeline")
	m.certificates = m.counter("certificates_total", "Passes by what they prove about their completeness.", "pipeline", "destination", "verdict")
	m.notices = m.counter("drift_notices_total", "Ways in which a source is not as it was.", "pipeline", "about", "severity")
	m.slots = m.counter("slots_total", "Slots of schedules by what became of them: ran, late, skipped, missed.", "pipeline", "outcome")
	m.lateRuns = m.counter("runs_late_total", "Runs that were not made when they were due.", "pipeline")
	m.reloads = m.counter("configuration_reloads_total", "Times the configuration was read again, by outcome.", "outcome")
	m.slotDelay = m.histogram("slot_delay_seconds", "How long after its time a slot's run began.", lagBuckets, "pipeline")
}

func (m *Metrics) makeSource() {
	m.requests = m.counter("source_requests_total", "Requests that went out, by the class of their status; none where no answer came.", "source", "surface", "class")
	m.throttled = m.counter("source_throttled_total", "Requests that were answered 429.", "source", "surface")
	m.requestDuration = m.histogram("source_request_duration_seconds", "How long answers took.", requestBuckets, "source", "surface")
}

func (m *Metrics) makeEvents() {
	m.deliveries = m.counter("webhook_deliveries_total", "Webhook deliveries by their verdict.", "source", "verdict")
	m.deliveryDuration = m.histogram("webhook_delivery_duration_seconds", "How long deliveries took to be answered.", requestBuckets, "source")
	m.events = m.counter("events_total", "Webhook events by what became of them: applied, unmapped, dead.", "pipeline", "outcome")
	m.behind = m.gauge("events_waiting", "Verified events that are not applied yet.", "pipeline")
	m.oldest = m.gauge("event_oldest_waiting_timestamp_seconds", "When the oldest event that waits was delivered; 0 where none does.", "pipeline")
	m.appliedLag = m.histogram("event_applied_lag_seconds", "From the delivery of an event until its effect was committed.", lagBuckets, "pipeline")
	m.refused = m.counter("access_refused_total", "Tokens that opened nothing: wrong ones, and those that were not evaluated because too many wrong ones came.", "outcome")
	m.alerts = m.counter("alerts_total", "Alerts by what became of them.", "kind", "outcome")
}

// Handler answers scrapes.
func (m *Metrics) Handler(log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog:            slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ErrorHandling:       promhttp.ContinueOnError,
		Timeout:             10 * time.Second,
		MaxRequestsInFlight: 4,
	})
}

// Configure says which sources, and which pipelines with which streams there
// are: only these become labels. Series of pipelines that are gone are dropped.
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
		m.running.WithLabelValues(name).Add(0) // seen before the first run
	}
}

func (m *Metrics) forget(pipeline string) {
	of := prometheus.Labels{"pipeline": pipeline}
	for _, v := range []interface{ DeletePartialMatch(prometheus.Labels) int }{
		m.runs, m.running, m.runDuration, m.runSuccess, m.streamSuccess, m.streamDuration, m.rows, m.records,
		m.bytes, m.pages, m.certificates, m.notices, m.slots, m.slotDelay, m.lateRuns, m.events, m.behind, m.oldest, m.appliedLag,
	} {
		v.DeletePartialMatch(of)
	}
}

// pipeline is name, or other where the configuration has none of that name.
func (m *Metrics) pipeline(name string) string {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if _, ok := m.streams[name]; ok {
		return name
	}
	return other
}

// stream is name, or other where the pipeline carries none of that name.
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

// oneOf is word, or other where it is none of known.
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
