package signal

import (
	"github.com/prometheus/client_golang/prometheus"
)

const namespace = "penstock"

func (m *Metrics) counter(name, help string, labels ...string) *prometheus.CounterVec {
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	v := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, labels)
	m.registry.MustRegister(v)
	return v
}

func (m *Metrics) histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: namespace, Name: name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(v)
	return v
}

func buildInfo(b Build) prometheus.Collector {
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info", Help: "Version, commit and Go version of penstock as labels; always 1.",
		ConstLabels: prometheus.Labels{"version": b.Version, "commit": b.Commit, "go": b.Go},
	})
	g.Set(1)
	return g
}

type readings func() Reading

var (
	rateLimit  = describe("rate_limit_requests_per_second", "Rate limit of the credential in requests per second, configured or learned; 0 while unknown.", "source", "surface")
	rateUsed   = describe("rate_used_requests_per_second", "Recent requests per second of the credential.", "source", "surface")
	rateFlying = describe("source_requests_in_flight", "Requests in flight.", "source", "surface")
	rateWaits  = describe("rate_wait_seconds", "Time until the next request may be sent; 0 if it may be sent now.", "source", "surface")
	inboxBytes = describe("inbox_bytes", "Size of the events in the inbox.", "source")
	inboxDead  = describe("inbox_dead_letters", "Dead letters in the inbox: events that could not be applied.", "source")
	unitsDue   = describe("units_waiting", "Units that a worker with a free slot can begin now. Includes the units of all processes that share the state.")
	unitsLater = describe("units_delayed", "Units that wait until a set time, for example because their source did not answer.")
	unitsBusy  = describe("units_running", "Units of runs that a worker executes.")
	unitsAge   = describe("unit_oldest_waiting_age_seconds", "Time since the run of the oldest waiting unit began; 0 if none waits.")
	slotsAll   = describe("worker_slots", "Slots of this process: how many sources it reads at once, by queue.", "queue")
	slotsUsed  = describe("worker_slots_used", "Slots of this process that are in use.", "queue")
	inboxAge   = describe("inbox_oldest_event_age_seconds", "Time since the delivery of the oldest event in the inbox; 0 if the inbox is empty.", "source")
)

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prometheus.BuildFQName(namespace, "", name), help, labels, nil)
}

// Describe sends the description of each metric that Collect sends.
func (readings) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{rateLimit, rateUsed, rateFlying, rateWaits, inboxBytes, inboxDead, inboxAge, unitsDue, unitsLater, unitsBusy, unitsAge, slotsAll, slotsUsed} {
		to <- d
	}
}

// Collect reads the current values and sends them as metrics.
func (read readings) Collect(to chan<- prometheus.Metric) {
	send := func(d *prometheus.Desc, v float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	r := read()
	for _, c := range r.Rates {
		send(rateLimit, c.Limit, c.Source, c.Surface)
		send(rateUsed, c.Used, c.Source, c.Surface)
		send(rateFlying, float64(c.InFlight), c.Source, c.Surface)
		send(rateWaits, max(0, c.Waits.Seconds()), c.Source, c.Surface)
	}
	if u := r.Units; u != nil {
		send(unitsDue, float64(u.Waiting))
		send(unitsLater, float64(u.Later))
		send(unitsBusy, float64(u.Running))
		send(unitsAge, u.Oldest.Seconds())
	}
	for _, s := range r.Slots {
		send(slotsAll, float64(s.All), s.Queue)
		send(slotsUsed, float64(s.Used), s.Queue)
	}
	for _, i := range r.Inbox {
		send(inboxDead, float64(i.Dead), i.Source)
		send(inboxBytes, float64(i.Bytes), i.Source)
		send(inboxAge, i.Age.Seconds(), i.Source)
	}
}
