// Package sizing says what a fleet can do before anybody has one: how long the
// runs of many workspaces take on so many workers, how many connections and how
// much of the database they want, and what they wait for. It adds up nothing: it
// plays the fleet in virtual time, with the costs of a unit as they were measured.
//
// A unit of work is one part of one workspace, as in the package above. Units
// are taken up in turn over the workspaces, as many at once as the workers have
// slots, and each goes as fast as the slowest of four things lets it: the answers
// of the API, one after another in each of its lists; the limit of its
// workspace's key, which all units of the workspace share; the cores of its
// worker; the cores of the database that all of them write to.
package sizing

import (
	"errors"
	"math"
	"time"
)

// Part is what one unit of a workspace asks for.
type Part struct {
	Requests float64
	Records  float64
	Streams  float64
	Lists    float64 // that are read side by side: so many answers are awaited at once; below 1: 1
}

// Workspaces are what is to be read. All have the same parts, in sizes of their own.
type Workspaces struct {
	Count   int
	Parts   []Part        // of a workspace of mean size
	Skew    float64       // sigma of the log-normal distribution of their sizes; 0: all alike
	Rate    float64       // requests a second that each one's key allows
	Latency time.Duration // of an answer
}

// Fleet is what reads them.
type Fleet struct {
	Workers     int
	Cores       float64 // of each worker
	Slots       int     // units that a worker has under way at once
	Database    float64 // cores of the server that holds the tables
	Connections int     // that the server allows
}

// Costs are what the work takes, in seconds of one core unless said otherwise.
type Costs struct {
	Request float64 // of a worker: ask, receive and take apart a small page
	Record  float64 // of a worker: read and encode one record
	Stream  float64 // of a worker: begin, commit and judge a pass

	Write  float64 // of the database: take in one record
	Commit float64 // of the database: the tables of one stream looked up, compared and committed
	State  float64 // of the database: claim, follow and settle a unit
	Lease  float64 // of the database: hand out a batch of requests

	Transactions int     // of the state for each unit
	LeaseEvery   float64 // seconds that a batch of requests lasts
	PerWorker    int     // connections that a worker has besides one for each unit under way
}

// Measured are the costs of a Postgres destination, on cores of the kind that
// `make bench` runs on: a million contacts in pages of a thousand take 5.8 s of a
// worker and 11 s of the server; the 149 streams of the sandbox, with 1,457
// requests for the first time and 1,123 for the second, 1.7 and 1.4 s of a worker
// and 4.2 and 3.7 s of the server.
func Measured() Costs {
	return Costs{
		Request: 0.8e-3, Record: 5.8e-6, Stream: 3.5e-3,
		Write: 11e-6, Commit: 25e-3, State: 4e-3, Lease: 0.4e-3,
		Transactions: 6, LeaseEvery: 1, PerWorker: 6,
	}
}

// Limit is what units wait for.
type Limit string

// What units wait for.
const (
	Answers  Limit = "answers"  // of the API, one after another
	Keys     Limit = "keys"     // the rate that each workspace's key allows
	Workers  Limit = "workers"  // their cores
	Slots    Limit = "slots"    // units wait although cores and database have room
	Database Limit = "database" // its cores
	Sessions Limit = "sessions" // connections that the database allows
)

// Outcome is how the fleet has fared.
type Outcome struct {
	Took     time.Duration
	Requests float64
	Records  float64
	Units    int

	Bound Limit             // what most of the time of units was spent waiting for
	Waits map[Limit]float64 // shares of that time; they add up to 1

	WorkerUse   float64 // share of the workers' cores over the whole time
	DatabaseUse float64 // share of the database's cores
	Connections int     // wanted at once
	StatePer    float64 // transactions a second of the state
}

// ErrSize is returned for a fleet or workspaces that are none.
var ErrSize = errors.New("a fleet wants workers, cores, slots and a database; workspaces want a rate and parts")

// valid refuses what cannot be played.
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

// Connections that the fleet wants of the database when all its slots are taken.
func (f Fleet) connections(c Costs) int { return f.Workers * (f.Slots + c.PerWorker) }

// Largest is the greatest number of workspaces, at most most, that the fleet
// reads within a time, and what is in the way of one more.
func Largest(w Workspaces, f Fleet, c Costs, within time.Duration, most int) (int, Limit, error) {
	if f.Connections > 0 && f.connections(c) > f.Connections {
		return 0, Sessions, nil
	}
	fits := func(n int) (bool, Limit, error) {
		w.Count = n
		o, err := Run(w, f, c)
		return err == nil && o.Took <= within, o.Bound, err
	}
	low, high := 0, 1
	var bound Limit
	for low < most { // until one does not fit
		ok, why, err := fits(high)
		if err != nil {
			return 0, "", err
		}
		if bound = why; !ok {
			break
		}
		low, high = high, min(2*high, most)
		if low == high {
			return most, bound, nil
		}
	}
	for high-low > max(1, low/20) {
		mid := low + (high-low)/2
		ok, why, err := fits(mid)
		if err != nil {
			return 0, "", err
		}
		if ok {
			low = mid
		} else {
			high, bound = mid, why
		}
	}
	return low, bound, nil
}
