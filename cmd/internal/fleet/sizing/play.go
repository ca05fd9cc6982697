package sizing

import (
	"math"
	"time"

	"github.com/penstock-data/penstock/extract/wire/budget"
)

type unit struct {
	source, worker int
	left           float64
	work           float64 // seconds of a worker's core per request
	write          float64 // seconds of the database's cores per request
	lists          float64
	rate           float64 // current rate, in requests per second
	demand         float64 // cores of the database that the unit could use at its current rate
	waits          int     // index of the limit that the unit waits for
}

// limits are the limits that a unit may wait for. Numbers are always added up in the order of limits, so that the same
// simulation returns the same digits each time.
var limits = [...]Limit{answers: Answers, keys: Keys, workers: Workers, slots: Slots, database: Database}

// The indexes of the limits. An array with these indexes is faster than a map with names.
const (
	answers = iota
	keys
	workers
	slots
	database
)

type simulation struct {
	Workspaces
	Fleet
	Costs

	sizes   []float64
	next    int // number of the next unit; the first parts of all workspaces come first, then all second parts
	active  []*unit
	ofKey   []int     // number of active units of each source
	perKey  []float64 // requests per second of each source with active units
	slots   []int
	load    []float64 // cores that each worker would need
	spare   []*unit
	now     float64
	worked  float64              // seconds of the workers' cores used so far
	written float64              // seconds of the database's cores used so far
	leases  float64              // current rate, in batches of requests per second
	leased  float64              // number of batches of requests so far
	waited  [len(limits)]float64 // seconds that units waited, by the index of the limit
	out     Outcome
}

// Run simulates the fleet until everything is read. The same input gives the same outcome.
func Run(w Workspaces, f Fleet, c Costs) (Outcome, error) {
	o, _, err := runUntil(w, f, c, math.Inf(1))
	return o, err
}

// runUntil simulates the fleet until everything is read, or until the given number of seconds has passed. It returns
// whether everything is read.
func runUntil(w Workspaces, f Fleet, c Costs, seconds float64) (o Outcome, all bool, err error) {
	if err := valid(w, f); err != nil {
		return Outcome{}, false, err
	}
	w.Rate = min(w.Rate, float64(budget.MostShared))
	p := &simulation{Workspaces: w, Fleet: f, Costs: c, sizes: sizes(w), ofKey: make([]int, w.Count), perKey: make([]float64, w.Count),
		slots: make([]int, f.Workers), load: make([]float64, f.Workers)}
	p.fill()
	for len(p.active) > 0 && p.now <= seconds {
		p.share()
		p.step()
		p.fill()
	}
	return p.outcome(), p.now <= seconds, nil
}

// sizes returns the sizes of the workspaces. Their mean is 1. The sizes are evenly spread over the distribution instead of
// random, and one more workspace hardly changes those of the others. So the time of a run grows evenly with the number of
// workspaces.
func sizes(w Workspaces) []float64 {
	all := make([]float64, w.Count)
	sum := 0.0
	for i := range all {
		_, quantile := math.Modf(0.5 + float64(i)/math.Phi)
		all[i] = math.Exp(w.Skew * math.Sqrt2 * math.Erfinv(2*quantile-1))
		sum += all[i]
	}
	for i := range all {
		all[i] *= float64(w.Count) / sum
	}
	return all
}

func (p *simulation) fill() {
	total := p.Count * len(p.Parts)
	for len(p.active) < p.Workers*p.Slots && p.next < total {
		worker := 0
		for i, n := range p.slots {
			if n < p.slots[worker] {
				worker = i
			}
		}
		u := p.unit(p.next, worker)
		p.next++
		p.slots[worker]++
		p.ofKey[u.source]++
		p.active = append(p.active, u)
	}
}

func (p *simulation) unit(n, worker int) *unit {
	source, part := n%p.Count, p.Parts[n/p.Count]
	u := &unit{}
	if last := len(p.spare) - 1; last >= 0 {
		u, p.spare = p.spare[last], p.spare[:last]
	}
	requests := math.Max(1, part.Requests*p.sizes[source])
	records := part.Records * p.sizes[source]
	*u = unit{
		source: source, worker: worker, left: requests, lists: math.Max(1, part.Lists),
		work:  p.Request + (part.Streams*p.Stream+records*p.Record)/requests,
		write: (p.State + part.Streams*p.Commit + records*p.Write) / requests,
	}
	p.out.Requests += requests
	p.out.Records += records
	p.out.Units++
	return u
}

// share computes the rate of each active unit. A worker with overloaded cores slows all its units by the same factor. The
// cores of an overloaded database are shared equally: a unit that needs less than its share is not slowed.
func (p *simulation) share() {
	waiting, latency := p.next < p.Count*len(p.Parts), p.Latency.Seconds()
	clear(p.load)
	for _, u := range p.active {
		u.rate, u.waits = u.lists/latency, answers
		if fair := p.Rate / float64(p.ofKey[u.source]); fair < u.rate {
			u.rate, u.waits = fair, keys
		} else if waiting {
			u.waits = slots // with more slots, more requests would be under way
		}
		p.load[u.worker] += u.rate * u.work
		p.perKey[u.source] = 0
	}
	for _, u := range p.active {
		if over := p.load[u.worker] / p.Cores; over > 1 {
			u.rate /= over
			u.waits = workers
		}
		p.perKey[u.source] += u.rate
	}
	// A slow key leases a batch for each request. A fast key leases one batch after another.
	often, sum := 1/math.Max(p.LeaseEvery, 1e-3), 0.0
	p.leases = 0
	for _, u := range p.active {
		batches := u.rate * min(1, often/p.perKey[u.source])
		u.demand = u.rate*u.write + batches*p.Lease
		sum += u.demand
		p.leases += batches
	}
	if sum > p.Database {
		p.shareDatabase(often)
	}
}

// shareDatabase slows the units that need more than their share of the database's cores.
func (p *simulation) shareDatabase(often float64) {
	most := p.Database / float64(len(p.active)) // cores for one unit
	for satisfied := -1; ; {
		n, rest := 0, p.Database
		for _, u := range p.active {
			if u.demand <= most {
				n++
				rest -= u.demand
			}
		}
		if n == satisfied {
			break
		}
		satisfied = n
		most = rest / float64(len(p.active)-n)
	}
	for _, u := range p.active {
		if u.demand <= most {
			continue
		}
		slower := most / u.demand
		p.leases -= u.rate * min(1, often/p.perKey[u.source]) * (1 - slower) // fewer requests need fewer batches
		u.rate *= slower
		u.waits = database
	}
}

// step advances the time until the next unit ends, but by at least a fortieth of the mean remaining time of the
// units. So units that end at almost the same time need only one step.
func (p *simulation) step() {
	soonest, mean := math.Inf(1), 0.0
	for _, u := range p.active {
		left := u.left / u.rate
		soonest = min(soonest, left)
		mean += left
	}
	dt := max(soonest, mean/float64(len(p.active))/40)
	p.now += dt
	p.leased += p.leases * dt
	kept := p.active[:0]
	for _, u := range p.active {
		done := min(u.left, u.rate*dt)
		p.worked += done * u.work
		p.written += done * u.write
		p.waited[u.waits] += dt
		if u.left -= done; u.left > 1e-9 {
			kept = append(kept, u)
			continue
		}
		p.slots[u.worker]--
		p.ofKey[u.source]--
		p.spare = append(p.spare, u)
	}
	p.active = kept
}

func (p *simulation) outcome() Outcome {
	o := p.out
	o.Took = time.Duration(p.now * float64(time.Second))
	o.Waits = map[Limit]float64{}
	sum, longest := 0.0, 0.0
	for _, t := range p.waited {
		sum += t
	}
	for i, l := range limits {
		if t := p.waited[i]; t > 0 {
			o.Waits[l] = t / sum
			if t > longest {
				o.Bound, longest = l, t
			}
		}
	}
	o.WorkerUse = p.worked / (p.now * p.Cores * float64(p.Workers))
	o.DatabaseUse = p.written / (p.now * p.Database)
	o.Connections = p.connections()
	transactions := float64(o.Units*p.Transactions) + p.leased + p.Polls*float64(p.Workers)*p.now
	o.StatePer = transactions / p.now
	o.WAL = o.Records*p.RowWAL + p.streams()*p.StreamWAL + transactions*p.StateWAL
	return o
}

// streams returns the number of streams of all workspaces.
func (p *simulation) streams() (n float64) {
	for _, part := range p.Parts {
		n += part.Streams
	}
	return n * float64(p.Count)
}
