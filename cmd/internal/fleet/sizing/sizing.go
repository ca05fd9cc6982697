// Package sizing estimates the capacity of a fleet before it exists: how long the
// runs of many workspaces take on a number of workers, how many connections and how
// much of the database they need, and what they wait for. It simulates the fleet in
// virtual time, with measured costs.
//
// A unit of work is one part of one workspace, as in package fleet. Workspaces
// take turns, and as many units run at once as the workers have
// slots. Four things limit the rate of a unit:
//
//   - the answers of the API, which arrive one after another in each list of the unit;
//   - the rate limit of its workspace's key, which all units of the workspace share, or [budget.MostShared] if this is less;
//   - the cores of its worker;
//   - the cores of the database that all units write to.
package sizing

import (
	"errors"
	"math"
	"time"
)

// UnitWork is the work of one unit of a workspace.
type UnitWork struct {
	Requests float64
	Records  float64
	Streams  float64
	Lists    float64 // lists that are read concurrently, with one request under way in each; a value below 1 counts as 1
}

// Workspaces describes the workspaces to read. All have the same parts, in different sizes.
type Workspaces struct {
	Count   int
	Parts   []UnitWork    // the parts of a workspace of mean size
	Skew    float64       // sigma of the log-normal distribution of the workspaces' sizes; 0: all equal
	Rate    float64       // requests a second that each workspace's key allows
	Latency time.Duration // time until an answer
}

// Fleet describes the workers and the database that read the workspaces.
type Fleet struct {
	Workers     int
	Cores       float64 // cores of each worker
	Slots       int     // units that a worker runs at once
	Database    float64 // cores of the database server
	Connections int     // connections that the server allows; 0: unlimited
}

// Costs are the costs of the work, in seconds of one core unless stated otherwise.
type Costs struct {
	Request float64 // of a worker: request, receive and parse a small page
	Record  float64 // of a worker: read and encode one record
	Stream  float64 // of a worker: begin, commit and certify a pass

	Write  float64 // of the database: write one record
	Commit float64 // of the database: look up, compare and commit the tables of one stream
	State  float64 // of the database: claim, track and settle a unit
	Lease  float64 // of the database: grant a batch of requests

	Transactions int     // state transactions per unit
	Polls        float64 // state transactions per second that each worker needs to look for work
	LeaseEvery   float64 // seconds that a batch of requests lasts, if more than one request is sent in this time

	RowWAL, StreamWAL, StateWAL float64 // bytes of WAL: for a record, for the new tables of a stream, for a state transaction
}

// Measured returns the costs with a Postgres destination, on cores of the kind that
// `make bench` runs on. A million contacts in pages of a thousand take 5.8 s of a
// worker and 11 s of the server. The first run over the 149 streams of the sandbox takes 1,457
// requests, 1.7 s of a worker and 4.2 s of the server; the second takes 1,123 requests, 1.4 s
// and 3.7 s.
//
// If the rate limit of a key is certain, a worker leases its requests for 1.1 s at once. A million contacts are 775 MB
// of WAL, and the first run over the 149 streams is 12.7 MB, with full_page_writes on.
func Measured() Costs {
	return Costs{
		Request: 0.8e-3, Record: 5.8e-6, Stream: 3.5e-3,
		Write: 11e-6, Commit: 25e-3, State: 4e-3, Lease: 0.4e-3,
		Transactions: 6, Polls: 3, LeaseEvery: 1.1,
		RowWAL: 775, StreamWAL: 60e3, StateWAL: 400,
	}
}

// MeasuredUnchanged returns the costs of a run that finds no change. A fleet read the 149 streams of three sandboxes, each
// night through a PgBouncer, with a server on which libfaketime made each statement slower. Therefore only the ratios to
// the first run of the same fleet are used: without the starts of the processes, such a night took 0.4 times the CPU of
// the workers, and 0.22 times that of the server. It wrote 0.5 MB of WAL for each workspace, most of it for the state.
func MeasuredUnchanged() Costs {
	c := Measured()
	c.Request, c.Stream = 0.4e-3, 0.5e-3
	c.Write, c.Commit = 0, 5.5e-3
	c.RowWAL, c.StreamWAL = 0, 3e3
	return c
}

// Limit names a resource that units wait for.
type Limit string

// The limits.
const (
	Answers  Limit = "answers"  // the answers of the API
	Keys     Limit = "keys"     // the rate limit of each workspace's key
	Workers  Limit = "workers"  // the workers' cores
	Slots    Limit = "slots"    // units wait although the cores and the database have capacity
	Database Limit = "database" // the database's cores
	Sessions Limit = "sessions" // connections that the database allows
)

// Outcome is the result of a simulation.
type Outcome struct {
	Took     time.Duration
	Requests float64
	Records  float64
	Units    int

	Bound Limit             // the limit that units waited for the longest
	Waits map[Limit]float64 // shares of the waiting time; they add up to 1

	WorkerUse   float64 // share of the workers' cores over the whole time
	DatabaseUse float64 // share of the database's cores over the whole time
	Connections int     // needed at once
	StatePer    float64 // state transactions per second
	WAL         float64 // bytes of WAL of the tables and the state
}

// ErrSize is returned for a fleet or workspaces that cannot be simulated.
var ErrSize = errors.New("a fleet needs workers, cores, slots and a database; workspaces need a rate, a latency and parts")

func valid(w Workspaces, f Fleet) error {
	whole := f.Workers > 0 && f.Slots > 0 && w.Count > 0 && len(w.Parts) > 0
	for _, x := range []float64{f.Cores, f.Database, w.Rate, w.Latency.Seconds()} {
		whole = whole && x > 0 && !math.IsInf(x, 0)
	}
	for _, p := range w.Parts {
		whole = whole && p.Requests >= 0 && p.Records >= 0 && !math.IsInf(p.Requests+p.Records, 0)
	}
	if !whole {
		return ErrSize
	}
	return nil
}

// Connections returns how many connections a worker with the given number of slots has to one server of Postgres at
// most: 4 and one for every two slots. Its units share them: a unit needs a connection only for short transactions. With
// one slot there are five, so that the state keeps two connections beside the one that listens for jobs.
func Connections(slots int) int { return 4 + (slots+1)/2 }

func (f Fleet) connections() int { return f.Workers * Connections(f.Slots) }

// Largest returns the greatest number of workspaces, up to limit, that the fleet reads in the given time. It also
// returns what prevents more. Numbers above 50 are up to two percent too low. If a smaller fleet reads the number least of
// workspaces, this one does too, because it can leave workers idle.
func Largest(w Workspaces, f Fleet, c Costs, within time.Duration, least, limit int) (low int, bound Limit, err error) {
	if f.Connections > 0 && f.connections() > f.Connections {
		return 0, Sessions, nil
	}
	low, high, next := least, limit+1, 50 // low fits, and high does not
	if least > 0 {
		next = least + max(1, least/50)
	}
	tried, took := 0, time.Duration(0) // the last number that was tried and fits
	for {
		w.Count = min(next, limit)
		o, fits, err := runUntil(w, f, c, within.Seconds())
		if err != nil {
			return 0, "", err
		}
		if bound == "" || !fits {
			bound = o.Bound
		}
		if fits {
			next = further(tried, w.Count, took, o.Took, within)
			low, tried, took = w.Count, w.Count, o.Took
		} else {
			high = w.Count
		}
		if high-low <= max(1, low/50) {
			return low, bound, nil
		}
		if !fits || next >= high {
			next = low + (high-low)/2
			if high > limit {
				next = limit
			}
		}
	}
}

// further returns the next number of workspaces to try after a and b, which take less than the given time. It assumes that
// each further workspace takes as long as those between a and b did.
func further(a, b int, tookA, tookB, within time.Duration) int {
	n := 4 * b
	if tookB > tookA {
		n = min(n, b+int(float64(b-a)*float64(within-tookB)/float64(tookB-tookA)))
	}
	return max(n, b+max(1, b/50))
}
