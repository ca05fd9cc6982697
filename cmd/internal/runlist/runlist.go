// Package runlist lists runs. If a run has several sources or destinations, each destination stores one row about each
// source. The list joins these rows to one entry, [Run], with a part for each row. A part also lists the attempts. If
// the state and the destinations disagree about a run, the entry shows what the state says.
package runlist

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/after"
	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// columns are the columns that are read from the table of runs.
var columns = []string{"run", "pipeline", "status", "started_at", "ended_at", "counts", "error"}

// Run is a run with its parts.
type Run struct {
	ID, Pipeline   string
	Status         pipeline.Status
	Started, Ended time.Time
	Error          string
	Parts          []Part
	Commands       []pipeline.Command // results of the commands that ran after the run
}

// Part is a row of the table of runs in one destination. It describes what one run did for one source.
type Part struct {
	Destination    string
	Source         string // "" if the pipeline has only one source
	Status         pipeline.Status
	Started, Ended time.Time
	Error          string
	Text           string // the counts, as JSON
	Counts         Counts
}

// Counts are the counts of a run or of a part of it.
type Counts struct {
	pipeline.Counts
	Requests int                     `json:"requests"`
	Pages    int                     `json:"pages"`
	Bytes    int64                   `json:"bytes"`
	Streams  map[pipeline.Status]int `json:"streams"`
	Attempts []pipeline.RunAttempt   `json:"attempts,omitempty"`
}

// List is the result of [Read].
type List struct {
	Runs         []Run // the newest first
	Destinations int   // number of destinations that were read
}

// Read returns the runs of the destinations that q selects. If the parameter run is not empty, Read returns only this
// run. Read calls the function also() for each destination after the runs there are read; also() may be nil. If q
// selects all destinations, the result also contains runs that only the state knows. If some destinations cannot be
// read, Read returns the runs of the other destinations, and an error.
func Read(ctx context.Context, o *open.Opener, q open.Selection, run string, also func(*open.Reader) error) (List, error) {
	all, names := map[string]*Run{}, map[string]bool{}
	err := o.ReadAll(ctx, q, func(r *open.Reader) error {
		names[r.Name] = true
		if err := add(ctx, r, run, all); err != nil || also == nil {
			return err
		}
		return also(r)
	})
	for _, r := range all {
		r.join()
	}
	whole := q.Source == "" && !strings.Contains(q.To, "@")
	if whole && ctx.Err() == nil {
		if known := ofState(ctx, o, all, run, q.To == ""); known && open.IsAbsent(err) {
			err = nil // the state knows runs that have loaded nothing yet
		}
	}
	l := List{Destinations: len(names)}
	for _, r := range slices.SortedFunc(maps.Values(all), func(a, b *Run) int { return cmp.Compare(b.ID, a.ID) }) {
		l.Runs = append(l.Runs, *r)
	}
	return l, err
}

// add adds the rows of a destination.
func add(ctx context.Context, r *open.Reader, run string, all map[string]*Run) error {
	var keep func(history.Row) bool
	if run != "" {
		keep = func(row history.Row) bool { return history.RunOf(row.Text("run")) == run }
	}
	rows, err := r.Project(ctx, load.Runs, columns, keep)
	if err != nil {
		return err
	}
	for _, values := range rows.Rows {
		p := Part{Destination: r.Name, Source: r.Source}
		if len(values) > len(columns) {
			p.Source, _ = values[0].(string)
			values = values[1:]
		}
		id, _ := values[0].(string)
		of, _ := values[1].(string)
		status, _ := values[2].(string)
		p.Status = pipeline.Status(status)
		p.Started, _ = values[3].(time.Time)
		p.Ended, _ = values[4].(time.Time)
		p.Text, _ = values[5].(string)
		p.Error, _ = values[6].(string)
		_ = json.Unmarshal([]byte(p.Text), &p.Counts) // an invalid text is still shown as it is
		if all[id] == nil {
			all[id] = &Run{ID: id, Pipeline: of}
		}
		all[id].Parts = append(all[id].Parts, p)
	}
	return nil
}

// join sets the fields of a run from its parts. // Invariant 14
func (r *Run) join() {
	slices.SortStableFunc(r.Parts, func(a, b Part) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Destination, b.Destination))
	})
	ended := true
	for i, p := range r.Parts {
		if i == 0 || p.Started.Before(r.Started) {
			r.Started = p.Started
		}
		if p.Ended.After(r.Ended) {
			r.Ended = p.Ended
		}
		ended = ended && p.Status != pipeline.StatusRunning
		r.Error = cmp.Or(r.Error, p.Error)
		r.Status = together(r.Status, p.Status)
	}
	if !ended {
		r.Ended = time.Time{}
	}
}

// together() returns the status of a run that has two parts with the statuses a and b.
func together(a, b pipeline.Status) pipeline.Status {
	switch {
	case a == "" || a == b:
		return b
	case a == pipeline.StatusRunning || b == pipeline.StatusRunning:
		return pipeline.StatusRunning
	case a == pipeline.StatusStopped || b == pipeline.StatusStopped:
		return pipeline.StatusStopped
	}
	return pipeline.StatusPartial
}

// stateWait limits how long the state may take to answer.
const stateWait = 5 * time.Second

// mostRecords is the maximum number of runs that are read from the state.
const mostRecords = 200

// ofState sets the fields of the runs to what the state has recorded, and reports whether the state knows any of the
// runs. If the parameter every is true, ofState also adds the runs that no destination has.
func ofState(ctx context.Context, o *open.Opener, all map[string]*Run, run string, every bool) (known bool) {
	c, err := o.LoadDestinations()
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, stateWait)
	defer cancel()
	s := o.State(c)
	records, err := recordsOf(ctx, s, run)
	if err == nil {
		for _, rec := range records {
			r := all[rec.Run]
			if r == nil && every {
				r = &Run{ID: rec.Run, Pipeline: rec.Pipeline}
				all[rec.Run] = r
			}
			if r == nil || r.Pipeline != rec.Pipeline {
				continue
			}
			known = true
			r.Status, r.Started, r.Ended = pipeline.Status(rec.Status), rec.Started, rec.Ended
			r.Error = cmp.Or(rec.Error, r.Error)
		}
		err = goesOn(ctx, s, run, all)
	}
	if err == nil {
		if err := withCommands(ctx, s, all); err != nil {
			o.Log.Warn("cannot read the results of some commands", "error", err)
		}
	}
	if err != nil {
		o.Log.Warn("cannot read the state; the list shows only what the destinations store about the runs", "error", err)
	}
	return known
}

// withCommands adds the results of the commands that ran after the runs. A run whose command was not successful is not
// complete. // Invariant 14
func withCommands(ctx context.Context, s state.Store, all map[string]*Run) error {
	results, err := after.ReadAll(ctx, s.Notes())
	for name, ofPipeline := range results {
		for _, one := range ofPipeline {
			r := all[one.Run]
			if r == nil || r.Pipeline != name {
				continue
			}
			r.Commands = one.Commands
			for _, c := range one.Commands {
				if c.Result != pipeline.CommandOK && r.Status == pipeline.StatusComplete {
					r.Status, r.Error = pipeline.StatusPartial, cmp.Or(r.Error, "command "+c.String()+": "+c.Error)
				}
			}
		}
	}
	return err
}

// recordsOf returns the records of runs in the journal. A journal that does not exist has none.
func recordsOf(ctx context.Context, s state.Store, run string) (all []state.RunRecord, err error) {
	j, err := s.ReadJournal(ctx)
	if err != nil {
		return nil, ignoreAbsent(err)
	}
	defer j.Close()
	if run == "" {
		return j.Runs(ctx, "", "", mostRecords)
	}
	one, ok, err := j.Run(ctx, run)
	if ok {
		all = append(all, one)
	}
	return all, err
}

// goesOn sets the status "running" for each run with units that have not ended. If a run is named, goesOn looks only at
// this run.
func goesOn(ctx context.Context, s state.Store, run string, all map[string]*Run) error {
	units, err := s.ReadUnits(ctx)
	if err != nil {
		return ignoreAbsent(err)
	}
	defer units.Close()
	f := state.UnitFilter{Run: run, Active: true}
	for {
		some, err := units.Units(ctx, f)
		if err != nil || len(some) == 0 {
			return err
		}
		for _, u := range some {
			if r := all[u.Run]; r != nil && r.Pipeline == u.Pipeline {
				r.Status, r.Ended = pipeline.StatusRunning, time.Time{}
			}
		}
		f.After = some[len(some)-1].ID
	}
}

func ignoreAbsent(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
