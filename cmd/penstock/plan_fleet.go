package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"

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
	records    int64 // records of each workspace; 0 means as in the forecast
}

// The assumed fleet: workers with two cores, and a database with eight. The costs in package sizing were measured
// on workers with two cores.
const (
	workerCores   = 2
	workerSlots   = 16
	databaseCores = 8
	sessions      = 500
	answerLatency = 200 * time.Millisecond
	unlikeSizes   = 1 // how unequal the workspaces are: the standard deviation of the logarithm of their sizes
	maxWorkers    = 64
	maxWorkspaces = 100_000
	nightly       = 8 * time.Hour
)

// fleetPlan is the output of `plan --fleet --json`.
type fleetPlan struct {
	Workspaces int        `json:"workspaces"`
	Records    float64    `json:"records"`  // records of all workspaces
	Requests   float64    `json:"requests"` // requests of all workspaces
	Rate       float64    `json:"rate"`     // requests per second that each key allows
	Within     float64    `json:"within_seconds"`
	Fleets     []fleetRow `json:"fleets"`
}

// fleetRow is the forecast for one number of workers.
type fleetRow struct {
	Workers      int                      `json:"workers"`
	Seconds      float64                  `json:"seconds"`
	Bound        sizing.Limit             `json:"waits_for"` // what the units wait for during most of the time
	Waits        map[sizing.Limit]float64 `json:"waits"`
	WorkerUse    float64                  `json:"worker_use"`
	DatabaseUse  float64                  `json:"database_use"`
	Connections  int                      `json:"connections"`
	Transactions float64                  `json:"state_transactions_per_second"`
	Largest      int                      `json:"workspaces_within"` // workspaces that could be read in within_seconds
	Then         sizing.Limit             `json:"then"`              // what the units of more workspaces than that would wait for
}

// planFleet simulates fleets of one to 64 workers, based on the forecast of one workspace.
func planFleet(f forecast.Forecast, families [][]string, w fleetFlags, within time.Duration) (fleetPlan, error) {
	within = cmp.Or(within, nightly)
	spaces := sizing.Workspaces{Count: w.workspaces, Parts: partsOf(f, families, w.records), Skew: unlikeSizes, Latency: answerLatency,
		Rate: rateOf(f)}
	p := fleetPlan{Workspaces: w.workspaces, Rate: spaces.Rate, Within: within.Seconds()}
	for n := 1; n <= maxWorkers; n *= 2 {
		options := sizing.Fleet{Workers: n, Cores: workerCores, Slots: workerSlots, Database: databaseCores, Connections: sessions}
		o, err := sizing.Run(spaces, options, sizing.Measured())
		if err != nil {
			return p, err
		}
		row := fleetRow{Workers: n, Seconds: o.Took.Seconds(), Bound: o.Bound, Waits: o.Waits, WorkerUse: o.WorkerUse,
			DatabaseUse: o.DatabaseUse, Connections: o.Connections, Transactions: o.StatePer}
		if row.Largest, row.Then, err = sizing.Largest(spaces, options, sizing.Measured(), within, maxWorkspaces); err != nil {
			return p, err
		}
		p.Records, p.Requests = o.Records, o.Requests
		p.Fleets = append(p.Fleets, row)
	}
	return p, nil
}

// rateOf returns the requests per second of one workspace. Streams of one credential are a lane. All lanes are
// read in parallel, so the slowest lane decides.
func rateOf(f forecast.Forecast) float64 {
	lanes := map[string]float64{}
	last := 1e-3
	for _, s := range f.Streams {
		lanes[s.Lane] += s.Seconds
		last = max(last, lanes[s.Lane])
	}
	return float64(f.Requests) / last
}

// partsOf returns the units of one workspace. Each entry of families has the names of the streams that one unit reads
// together. partsOf merges small families into one unit.
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

// familiesOf returns the names of the streams of each family, which one unit reads together.
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
	printFleet(a.out, p)
	return nil
}

// waitsFor describes each limit of a fleet, for the table.
var waitsFor = map[sizing.Limit]string{
	sizing.Answers: "answers of the API", sizing.Keys: "the keys' rates", sizing.Workers: "workers' cores", sizing.Slots: "workers' slots",
	sizing.Database: "the database's cores", sizing.Sessions: "connections",
}

func printFleet(w io.Writer, p fleetPlan) {
	g := render.NewTable("#workers", "#takes", "waits for", "#workers busy", "#database busy", "#connections", "#state tx/s",
		fmt.Sprintf("#workspaces in %s", render.Brief(render.Lasting(p.Within))), "then")
	for _, r := range p.Fleets {
		g.Add(r.Workers, render.Lasting(r.Seconds), waitsFor[r.Bound], percent(r.WorkerUse), percent(r.DatabaseUse), r.Connections, int(r.Transactions), r.Largest, waitsFor[r.Then])
	}
	g.Render(w)
	fmt.Fprintf(w, "\n%s, %s requests, %s rows, in the first run; each key allows %.3g requests per second, a response takes %s\n",
		render.Plural(p.Workspaces, "workspace"), render.Grouped(int64(math.Round(p.Requests))), render.Grouped(int64(math.Round(p.Records))), p.Rate, answerLatency)
	fmt.Fprintf(w, "workers of %d cores with %d units at once; a Postgres of %d cores and %d connections for tables and state\n", workerCores, workerSlots, databaseCores, sessions)
	if enough := slices.IndexFunc(p.Fleets, func(r fleetRow) bool { return r.Seconds <= p.Within && r.Connections <= sessions }); enough >= 0 {
		is := "are"
		if p.Fleets[enough].Workers == 1 {
			is = "is"
		}
		fmt.Fprintf(w, "%s %s enough for %s\n", render.Plural(p.Fleets[enough].Workers, "worker"), is, render.Brief(render.Lasting(p.Within)))
		return
	}
	last := p.Fleets[len(p.Fleets)-1]
	limits := slices.SortedFunc(maps.Keys(last.Waits), func(a, b sizing.Limit) int { return cmp.Compare(last.Waits[b], last.Waits[a]) })
	fmt.Fprintf(w, "no fleet of up to %d workers is enough for %s; the first limit is %s\n", maxWorkers, render.Brief(render.Lasting(p.Within)), waitsFor[limits[0]])
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }
