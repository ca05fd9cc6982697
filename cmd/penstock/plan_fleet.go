package main

import (
	"cmp"
	"math"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/fleet/sizing"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/forecast"
	"github.com/penstock-data/penstock/cmd/internal/render"
)

// fleetFlags are the flags of plan --fleet.
type fleetFlags struct {
	enabled    bool
	workspaces int
	records    int64 // number of records of each workspace; 0 means the number that the forecast has
	latency    time.Duration
	fleet      sizing.Fleet // describes one worker, with the values of the flags
}

// add adds the flags to a command. It returns the names of the flags that need --fleet.
func (w *fleetFlags) add(fl *pflag.FlagSet) (names []string) {
	fl.BoolVar(&w.enabled, "fleet", false, "forecast the workers, connections and hours for many workspaces like this one")
	own := pflag.NewFlagSet("fleet", pflag.ContinueOnError)
	own.IntVar(&w.workspaces, "workspaces", 1, "with --fleet, `number` of workspaces")
	own.Int64Var(&w.records, "records", 0, "with --fleet, `number` of records per workspace; 0 means as many as this one")
	own.DurationVar(&w.latency, "latency", answerLatency, "with --fleet, `time` until a response")
	own.IntVar(&w.fleet.Slots, "slots", workerSlots, "with --fleet, `number` of units that a worker reads at once")
	own.Float64Var(&w.fleet.Cores, "cores", workerCores, "with --fleet, `number` of cores of a worker")
	own.IntVar(&w.fleet.Connections, "connections", sessions, "with --fleet, `number` of connections that Postgres allows; 0 means any number")
	own.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	fl.AddFlagSet(own)
	w.fleet.Database = databaseCores
	return names
}

// check returns an error if a flag has a number that no fleet can have.
func (w *fleetFlags) check() error {
	if w.workspaces < 1 || w.workspaces > maxWorkspaces || w.records < 0 {
		return failure.Usage("", "--workspaces must be from 1 to %s, and --records cannot be negative", render.Grouped(maxWorkspaces))
	}
	if w.latency <= 0 || w.fleet.Slots < 1 || w.fleet.Cores <= 0 || w.fleet.Connections < 0 {
		return failure.Usage("", "--latency, --slots and --cores must be more than 0, and --connections cannot be negative")
	}
	return nil
}

// The assumed fleet: workers with two cores, and a database server with eight. The costs in package sizing were
// measured on workers with two cores.
const (
	workerCores   = 2
	workerSlots   = 16
	databaseCores = 8
	sessions      = 500
	answerLatency = 200 * time.Millisecond
	unlikeSizes   = 1 // how much the sizes of workspaces differ: the standard deviation of the logarithm of the sizes
	maxWorkers    = 64
	maxWorkspaces = 100_000
	nightly       = 8 * time.Hour
)

// planFleet simulates fleets of one to 64 workers, based on the forecast of one workspace. For each fleet, it simulates
// the first run, and a run that finds no change.
func planFleet(f forecast.Forecast, families [][]string, w fleetFlags, within time.Duration) (render.FleetPlan, error) {
	within = cmp.Or(within, nightly)
	spaces := sizing.Workspaces{Count: w.workspaces, Parts: partsOf(f, families, w.records), Skew: unlikeSizes, Latency: w.latency,
		Rate: rateOf(f)}
	p := render.FleetPlan{Workspaces: w.workspaces, Rate: spaces.Rate, Within: within.Seconds(), Latency: w.latency.Seconds(), Worker: w.fleet, Most: maxWorkspaces}
	var first, night []plannedRun
	var both errgroup.Group // each takes seconds of one core
	both.Go(func() (err error) {
		first, err = planRuns(spaces, w.fleet, sizing.Measured(), within)
		return err
	})
	both.Go(func() (err error) {
		night, err = planRuns(spaces, w.fleet, sizing.MeasuredUnchanged(), within)
		return err
	})
	if err := both.Wait(); err != nil {
		return p, err
	}
	p.Records, p.Requests = int64(math.Round(first[0].Records)), int64(math.Round(first[0].Requests))
	for i, r := range first {
		p.Fleets = append(p.Fleets, render.FleetRow{Workers: r.workers, FleetRun: r.FleetRun, Connections: r.Connections, Night: night[i].FleetRun})
	}
	return p, nil
}

// plannedRun is the simulation of one run of a fleet.
type plannedRun struct {
	workers int
	render.FleetRun
	sizing.Outcome
}

// planRuns simulates a run of fleets of one to 64 workers, and finds the largest number of workspaces that each fleet reads
// in time.
func planRuns(spaces sizing.Workspaces, f sizing.Fleet, c sizing.Costs, within time.Duration) (all []plannedRun, err error) {
	largest := 0
	for f.Workers = 1; f.Workers <= maxWorkers; f.Workers *= 2 {
		o, err := sizing.Run(spaces, f, c)
		if err != nil {
			return nil, err
		}
		r := render.FleetRun{Seconds: o.Took.Seconds(), Bound: o.Bound, Waits: o.Waits, WorkerUse: o.WorkerUse, DatabaseUse: o.DatabaseUse,
			Transactions: o.StatePer, WAL: int64(math.Round(o.WAL)), WALPer: int64(math.Round(o.WAL / o.Took.Seconds()))}
		if largest, r.Then, err = sizing.Largest(spaces, f, c, within, largest, maxWorkspaces); err != nil {
			return nil, err
		}
		r.Largest = largest
		all = append(all, plannedRun{f.Workers, r, o})
	}
	return all, nil
}

// rateOf returns the requests per second of one workspace. All streams that use the same credential form a lane. A run
// reads the lanes in parallel, so the run takes as long as the slowest lane.
func rateOf(f forecast.Forecast) float64 {
	lanes := map[string]float64{}
	last := 1e-3
	for _, s := range f.Streams {
		lanes[s.Lane] += s.Seconds
		last = max(last, lanes[s.Lane])
	}
	return float64(f.Requests) / last
}

// partsOf returns the units of one workspace. Each family is a list of streams that one unit reads together. Small
// families are merged into one unit.
func partsOf(f forecast.Forecast, families [][]string, records int64) []sizing.UnitWork {
	of := map[string]forecast.Stream{}
	for _, s := range f.Streams {
		of[s.Stream] = s
	}
	grow := 1.0
	if records > 0 && f.Records > 0 {
		grow = float64(records) / float64(f.Records)
	}
	var parts []sizing.UnitWork
	var rest sizing.UnitWork
	for _, names := range families {
		p := sizing.UnitWork{Streams: float64(len(names)), Lists: float64(min(len(names), pipeline.DefaultWorkers))}
		for _, name := range names {
			p.Requests += max(1, float64(of[name].Requests)*grow)
			p.Records += float64(of[name].Records) * grow
		}
		if p.Requests+p.Records/100 >= 0.02*(float64(f.Requests)+float64(f.Records)/100)*grow {
			parts = append(parts, p)
			continue
		}
		rest.Streams += p.Streams
		rest.Requests += p.Requests
		rest.Records += p.Records
	}
	if rest.Streams > 0 {
		rest.Lists = min(rest.Streams, pipeline.DefaultWorkers)
		parts = append(parts, rest)
	}
	return parts
}

// familiesOf returns for each family the names of its streams. One unit reads all streams of a family.
func familiesOf(r *open.Run) [][]string {
	var all [][]string
	for _, f := range fleet.Families(open.Plain(r.Streams)) {
		var names []string
		for _, s := range f {
			names = append(names, s.Name)
		}
		all = append(all, names)
	}
	return all
}

func printFleetPlan(a *app, r *open.Run, f forecast.Forecast, options fleetFlags, within time.Duration) error {
	p, err := planFleet(f, familiesOf(r), options, within)
	if err != nil {
		return err
	}
	if a.json {
		return render.NewEncoder(a.out).Encode(p)
	}
	render.Fleet(a.out, p)
	return nil
}
