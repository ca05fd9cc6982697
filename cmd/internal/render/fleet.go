package render

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/fleet/sizing"
)

// FleetPlan is the output of `plan --fleet --json`.
type FleetPlan struct {
	Workspaces int          `json:"workspaces"`
	Records    int64        `json:"records"`         // records of all workspaces
	Requests   int64        `json:"requests"`        // requests of all workspaces
	Rate       float64      `json:"rate"`            // requests per second that each key allows
	Latency    float64      `json:"latency_seconds"` // time until a response
	Within     float64      `json:"within_seconds"`
	Worker     sizing.Fleet `json:"-"` // the size of one worker, and of the database
	Most       int          `json:"-"` // the largest number of workspaces that was tried
	Fleets     []FleetRow   `json:"fleets"`
}

// FleetRow is the forecast for one number of workers.
type FleetRow struct {
	Workers     int      `json:"workers"`
	FleetRun             // the first run
	Connections int      `json:"connections"`
	Night       FleetRun `json:"night"` // a run that finds no change
}

// FleetRun is the forecast of one run.
type FleetRun struct {
	Seconds      float64                  `json:"seconds"`
	Bound        sizing.Limit             `json:"waits_for"` // the limit that the units wait for longest
	Waits        map[sizing.Limit]float64 `json:"waits"`
	WorkerUse    float64                  `json:"worker_use"`
	DatabaseUse  float64                  `json:"database_use"`
	Transactions float64                  `json:"state_transactions_per_second"`
	WAL          int64                    `json:"wal_bytes"` // bytes of WAL of the tables and the state
	WALPer       int64                    `json:"wal_bytes_per_second"`
	Largest      int                      `json:"workspaces_within"` // workspaces that could be read in within_seconds
	Then         sizing.Limit             `json:"then"`              // the limit that prevents more workspaces than Largest
}

// waitsFor describes each limit of a fleet, for the table.
var waitsFor = map[sizing.Limit]string{
	sizing.Answers: "answers of the API", sizing.Keys: "the keys' rates", sizing.Workers: "workers' cores", sizing.Slots: "workers' slots",
	sizing.Database: "the database's cores", sizing.Sessions: "connections",
}

// Fleet prints the forecast of each fleet, the smallest one that is enough, and what limits it first.
func Fleet(w io.Writer, p FleetPlan) {
	fmt.Fprintln(w, "the first run")
	fleetTable(w, p, func(r FleetRow) FleetRun { return r.FleetRun })
	fmt.Fprintln(w, "\na later run that finds no change")
	fleetTable(w, p, func(r FleetRow) FleetRun { return r.Night })
	fmt.Fprintf(w, "\n%s, %s requests, %s rows, in the first run; each key allows %.3g requests per second, a response takes %s\n",
		Plural(p.Workspaces, "workspace"), Grouped(p.Requests), Grouped(p.Records), p.Rate, Brief(Lasting(p.Latency)))
	allowed := "any number of"
	if p.Worker.Connections > 0 {
		allowed = Grouped(int64(p.Worker.Connections))
	}
	fmt.Fprintf(w, "each worker has %s and %d units at once; Postgres (tables and state) has %s and %s connections, and writes %s MB of WAL\n",
		cores(p.Worker.Cores), p.Worker.Slots, cores(p.Worker.Database), allowed, Grouped(int64(math.Ceil(float64(p.Fleets[0].WAL)/1e6))))
	enoughWorkers(w, p)
}

func fleetTable(w io.Writer, p FleetPlan, of func(FleetRow) FleetRun) {
	g := NewTable("#workers", "#takes", "waits for", "#workers busy", "#database busy", "#connections", "#state tx/s", "#WAL MB/s",
		fmt.Sprintf("#workspaces in %s", Brief(Lasting(p.Within))), "then")
	for _, row := range p.Fleets {
		r := of(row)
		g.Add(row.Workers, Lasting(r.Seconds), waitsFor[r.Bound], percent(r.WorkerUse), percent(r.DatabaseUse), row.Connections, int(r.Transactions), fmt.Sprintf("%.1f", float64(r.WALPer)/1e6), r.Largest, waitsFor[r.Then])
	}
	g.Render(w)
}

// enoughWorkers prints the smallest fleet that is enough for the first run, and what limits it first.
func enoughWorkers(w io.Writer, p FleetPlan) {
	enough := slices.IndexFunc(p.Fleets, func(r FleetRow) bool {
		return r.Seconds <= p.Within && (p.Worker.Connections == 0 || r.Connections <= p.Worker.Connections)
	})
	if enough < 0 {
		last := p.Fleets[len(p.Fleets)-1]
		limits := slices.SortedFunc(maps.Keys(last.Waits), func(a, b sizing.Limit) int { return cmp.Compare(last.Waits[b], last.Waits[a]) })
		fmt.Fprintf(w, "no fleet of up to %d workers is enough for %s; the first limit is %s\n", last.Workers, Brief(Lasting(p.Within)), waitsFor[limits[0]])
		return
	}
	r, is := p.Fleets[enough], "are"
	if r.Workers == 1 {
		is = "is"
	}
	if r.Largest < p.Most {
		fmt.Fprintf(w, "with more than about %s workspaces, %s would be the first limit of %s\n", Grouped(int64(r.Largest)), waitsFor[r.Then], Plural(r.Workers, "worker"))
	}
	fmt.Fprintf(w, "%s %s enough for %s\n", Plural(r.Workers, "worker"), is, Brief(Lasting(p.Within)))
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

func cores(n float64) string {
	if n == 1 {
		return "1 core"
	}
	return fmt.Sprintf("%g cores", n)
}
