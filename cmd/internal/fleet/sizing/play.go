package sizing

import (
	"math"
	"math/rand/v2"
	"time"
)

type unit struct {
	source, worker int
	left           float64
	work           float64 // seconds of a worker's core per request
	write          float64 // seconds of the database's cores per request
	lists          float64
	rate           float64 // current rate, in requests per second
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
	if err := valid(w, f); err != nil {
		return Outcome{}, err
	}
	p := &simulation{Workspaces: w, Fleet: f, Costs: c, sizes: sizes(w), ofKey: make([]int, w.Count), perKey: make([]float64, w.Count), slots: make([]int, f.Workers)}
	p.fill()
	for len(p.active) > 0 {
		p.share()
		p.step()
		p.fill()
	}
	return p.outcome(), nil
}

func sizes(w Workspaces) []float64 {
	all := make([]float64, w.Count)
	r := rand.New(rand.NewPCG(1, uint64(w.Count)))
	sum := 0.0
	for i := range all {
		all[i] = math.Exp(w.Skew * r.NormFloat64())
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

// share computes the rate of each active unit. Overloaded cores slow all their units by the same factor. Capacity that
// a slow unit does not use is not given to other units.
func (p *simulation) share() {
	load, waiting, latency := make([]float64, p.Workers), p.next < p.Count*len(p.Parts), p.Latency.Seconds()
	for _, u := range p.active {
		u.rate, u.waits = u.lists/latency, answers
		if fair := p.Rate / float64(p.ofKey[u.source]); fair < u.rate {
			u.rate, u.waits = fair, keys
		}
		load[u.worker] += u.rate * u.work
	}
	writes := 0.0
	for _, u := range p.active {
		p.perKey[u.source] = 0
	}
	for _, u := range p.active {
		if over := load[u.worker] / p.Cores; over > 1 {
			u.rate /= over
			u.waits = workers
		}
		writes += u.rate * u.write
		p.perKey[u.source] += u.rate
	}
	p.leases = p.leasesNow()
	if over := (writes + p.leases*p.Lease) / p.Database; over > 1 {
		p.leases /= over // fewer requests need fewer batches
		for _, u := range p.active {
			u.rate /= over
			u.waits = database
		}
		return
	}
	for _, u := range p.active {
		if waiting && u.waits == answers {
			u.waits = slots // with more slots, more requests would be under way
		}
	}
}

// leasesNow returns how many batches of requests all keys lease per second. A slow key leases a batch for each
// request. A fast key leases one batch after another.
func (p *simulation) leasesNow() (n float64) {
	for _, u := range p.active {
		if rate := p.perKey[u.source]; rate > 0 {
			n += min(rate, 1/math.Max(p.LeaseEvery, 1e-3))
			p.perKey[u.source] = 0
		}
	}
	return n
}

// step advances the time until the next unit ends, but by at least a hundredth of the mean remaining time of the
// units. So units that end at almost the same time need only one step.
func (p *simulation) step() {
	soonest, mean := math.Inf(1), 0.0
	for _, u := range p.active {
		left := u.left / u.rate
		soonest = min(soonest, left)
		mean += left
	}
	dt := max(soonest, mean/float64(len(p.active))/100)
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
