package facts

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/after"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// Runs implements board.History. A run into several destinations is one item, whose counts are summed as in the
// run's report.
func (f *Facts) Runs(ctx context.Context, q board.Query) (board.List[board.Run], error) {
	all, snapshots := f.runs(ctx, q.Source)
	l := part(all, q, func(r board.Run) bool {
		return (q.Pipeline == "" || q.Pipeline == r.Pipeline) && (q.Status == "" || q.Status == string(r.Status))
	})
	l.Hint = separateHint(snapshots)
	return l, nil
}

func (f *Facts) runs(ctx context.Context, source string) ([]board.Run, []*snapshot) {
	var all []board.Run
	at, snapshots := map[string]int{}, f.snapshotsOf(ctx, source)
	for _, name := range destinationNames(snapshots) {
		for id, r := range f.runsIn(name, snapshots, source) {
			i, ok := at[id]
			if !ok {
				at[id] = len(all)
				all = append(all, r)
				continue
			}
			all[i] = both(all[i], r)
		}
	}
	for _, s := range f.daemon.Hub().Statuses() {
		if source == "" {
			scheduled(ctx, f.Journal, s, all, at)
		}
		if r := s.Running; r != nil && reads(s.Sources, source) {
			i, ok := at[r.Run]
			if !ok { // the run began after the snapshots were read
				i = len(all)
				all = append(all, board.Run{ID: r.Run, Pipeline: s.Name, Destinations: s.Destinations, Status: pipeline.StatusRunning, Started: r.Started})
			}
			if source == "" {
				progress(&all[i], runningOf(s))
			}
		}
	}
	for run, commands := range f.Workspaces.commands(ctx, f.Log) {
		if i, ok := at[run]; ok {
			withCommands(&all[i], commands)
		}
	}
	slices.SortStableFunc(all, func(a, b board.Run) int { return strings.Compare(b.ID, a.ID) })
	return all, snapshots
}

// commands returns the results of the commands that ran after runs, by run.
func (w Workspaces) commands(ctx context.Context, log *slog.Logger) map[string][]pipeline.Command {
	if w.State == nil {
		return nil
	}
	all, err := after.ReadAll(ctx, w.State.Notes())
	if err != nil && ctx.Err() == nil {
		log.Warn("cannot read the results of commands", "error", err)
	}
	byRun := map[string][]pipeline.Command{}
	for _, results := range all {
		for _, r := range results {
			byRun[r.Run] = r.Commands
		}
	}
	return byRun
}

// withCommands sets the status of a run whose command was not successful: the destinations do not know the command.
// Invariant 14
func withCommands(r *board.Run, all []pipeline.Command) {
	for _, c := range all {
		if c.Result != pipeline.CommandOK && r.Status == pipeline.StatusComplete {
			r.Status, r.Error = pipeline.StatusPartial, cmp.Or(r.Error, "command "+c.String()+": "+c.Error)
		}
	}
}

// progress sets the counters of a run in progress. They are newer than those in the destinations.
func progress(r *board.Run, now board.Running) {
	r.Streams, r.Open = now.Streams, max(0, now.Streams-now.Ended)
	r.Requests = max(r.Requests, now.Requests)
	r.Counts.Fetched = max(r.Counts.Fetched, now.Records)
}

// mostScheduled is the maximum number of a pipeline's slots that are read to find the status of its runs.
const mostScheduled = 200

// scheduled() sets the status of the runs that have a slot. The status in the destinations may be wrong: the
// destinations contain only the sources that the run has begun to read, so a run that is still in progress may seem to
// be complete. // Invariant 14
func scheduled(ctx context.Context, j state.Journal, p serve.Status, all []board.Run, at map[string]int) {
	slots, err := j.Slots(ctx, p.Name, mostScheduled)
	if err != nil {
		return // the status from the destinations is shown
	}
	for _, s := range slots {
		i, ok := at[s.Run]
		switch {
		case !ok || s.Run == "" || all[i].Pipeline != p.Name:
		case s.State == state.SlotWaiting && s.Attempts > 0 && p.Paused: // no process continues it
			all[i].Status = pipeline.Status(cmp.Or(s.Status, string(pipeline.StatusStopped)))
		case s.State == state.SlotRunning || s.State == state.SlotWaiting && s.Attempts > 0:
			all[i].Status, all[i].Ended = pipeline.StatusRunning, time.Time{}
		case s.State == state.SlotRan && s.Status != "":
			all[i].Status = pipeline.Status(s.Status)
		}
	}
}

func destinationNames(snapshots []*snapshot) (names []string) {
	for _, b := range snapshots {
		if !slices.Contains(names, b.part.Name) {
			names = append(names, b.part.Name)
		}
	}
	return names
}

func (f *Facts) runsIn(name string, snapshots []*snapshot, source string) map[string]board.Run {
	all := map[string]board.Run{}
	for _, b := range snapshots {
		if b.part.Name != name {
			continue
		}
		for _, r := range b.runs {
			if was, ok := all[r.ID]; ok {
				all[r.ID] = together(was, r)
			} else if f.mayConcern(r.Pipeline, source, b) {
				all[r.ID] = r
			}
		}
	}
	return all
}

// mayConcern reports whether rows of a pipeline in the snapshot b may belong to the source. It returns true if source
// is "". It also returns true if b has the data of only one source, because snapshotsOf has selected b by its source.
func (f *Facts) mayConcern(pipeline, source string, b *snapshot) bool {
	if source == "" || b.part.Source != "" {
		return true
	}
	s, ok := f.daemon.Hub().Status(pipeline)
	return ok && reads(s.Sources, source)
}

func both(a, b board.Run) board.Run {
	a.Destinations = append(slices.Clip(a.Destinations), b.Destinations...)
	a.Counts = a.Counts.Add(b.Counts)
	a.Sources, a.Requests, a.Streams, a.Open = max(a.Sources, b.Sources), max(a.Requests, b.Requests), max(a.Streams, b.Streams), max(a.Open, b.Open)
	a.Error = cmp.Or(a.Error, b.Error)
	if a.Ended.Before(b.Ended) {
		a.Ended = b.Ended
	}
	if a.Status == pipeline.StatusComplete {
		a.Status = b.Status
	}
	return a
}

// Rejects implements board.History.
func (f *Facts) Rejects(ctx context.Context, q board.Query) (board.List[board.Reject], error) {
	var all []board.Reject
	for _, b := range f.snapshotsOf(ctx, q.Source) {
		for _, r := range b.rejects {
			if f.mayConcern(r.Pipeline, q.Source, b) {
				all = append(all, r)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b board.Reject) int { return strings.Compare(b.Run, a.Run) })
	return part(all, q, func(r board.Reject) bool {
		return (q.Pipeline == "" || q.Pipeline == r.Pipeline) && (q.Stream == "" || q.Stream == r.Stream) && (q.All || r.Resolved.IsZero())
	}), nil
}

// Schema implements board.History.
func (f *Facts) Schema(ctx context.Context, q board.Query) (board.List[board.Change], error) {
	var all []board.Change
	for _, b := range f.snapshotsOf(ctx, "") {
		all = append(all, b.changes...)
	}
	all = slices.DeleteFunc(all, own)
	slices.SortStableFunc(all, func(a, b board.Change) int { return b.At.Compare(a.At) })
	return part(all, q, func(c board.Change) bool { return q.Table == "" || q.Table == c.Table }), nil
}

// part selects the items for which the function accept returns true, and returns the page of them that q selects. Total
// is the number of all accepted items.
func part[T any](items []T, q board.Query, accept func(T) bool) board.List[T] {
	var l board.List[T]
	for _, item := range items {
		if !accept(item) {
			continue
		}
		if l.Total >= q.Offset && (q.Limit == 0 || len(l.Items) < q.Limit) {
			l.Items = append(l.Items, item)
		}
		l.Total++
	}
	return l
}

const (
	shownRejects = 50
	shownChanges = 200
	shownChecks  = 500
	shownPasses  = 1000
)

// Run implements board.History.
func (f *Facts) Run(ctx context.Context, id, source string) (board.RunDetail, error) {
	var d board.RunDetail
	runs, snapshots := f.runs(ctx, source)
	for _, r := range runs {
		if r.ID == id {
			d.Run = r
		}
	}
	kept, ok, err := f.Journal.Run(ctx, id)
	switch {
	case err != nil:
		return d, err
	case d.ID == "" && (!ok || source != ""):
		return d, board.ErrUnknown
	case d.ID == "":
		d.Run = board.Run{ID: id, Pipeline: kept.Pipeline, Status: pipeline.Status(kept.Status), Started: kept.Started, Ended: kept.Ended, Error: kept.Error}
	}
	if d.Passes, err = passes(ctx, snapshots, id); err != nil {
		return d, err
	}
	if d.Passes == nil {
		d.Passes = f.reported(d.Pipeline, id)
	}
	if d.Total = len(d.Passes); d.Total > shownPasses {
		slices.SortStableFunc(d.Passes, func(a, b board.Pass) int { return board.Graver(b.Tone(), a.Tone()) })
		d.Passes = d.Passes[:shownPasses]
	}
	recall(&d, kept)
	for _, c := range f.Workspaces.commands(ctx, f.Log)[id] {
		d.Commands = append(d.Commands, board.Command{Command: c.String(), Result: string(c.Result), ExitCode: c.ExitCode, Started: c.Started, Ended: c.Ended, Error: c.Error, Output: c.Output})
	}
	if s, ok := f.daemon.Hub().Status(d.Pipeline); ok {
		_, d.Zone = split(s.Schedule)
	}
	for _, b := range snapshots {
		d.Checks = append(d.Checks, part(b.checks, board.Query{Limit: shownChecks}, func(c board.Check) bool { return c.Run == id }).Items...)
		rejects := part(b.rejects, board.Query{}, func(r board.Reject) bool { return r.Run == id }).Items
		d.Groups = append(d.Groups, board.GroupRejects(rejects)...)
		d.Rejects = append(d.Rejects, rejects[:min(len(rejects), shownRejects)]...)
		d.Changes = append(d.Changes, part(b.changes, board.Query{Limit: shownChanges}, func(c board.Change) bool { return c.Run == id && !own(c) }).Items...)
	}
	return d, nil
}

// passes returns the passes of a run, and also the streams that ended without a certificate.
func passes(ctx context.Context, snapshots []*snapshot, id string) (all []board.Pass, err error) {
	for _, b := range snapshots {
		if !b.knows(id) {
			continue
		}
		proofs, err := b.proofs(ctx, id)
		if err != nil {
			return nil, err
		}
		all = append(all, proofs...)
	}
	return all, nil
}

func (f *Facts) reported(name, run string) (all []board.Pass) {
	s, ok := f.daemon.Hub().Status(name)
	if !ok || s.Running == nil || s.Running.Run != run {
		return nil
	}
	for _, r := range s.Running.Streams {
		for _, rep := range r.Reports {
			p := board.Pass{Stream: rep.Stream, Destination: rep.Destination, Status: rep.Status, Verdict: rep.Verdict, Why: rep.Reasons, Counts: rep.Counts,
				Pages: rep.Pages, Requests: rep.Requests, Started: r.Started, Ended: r.Updated, Error: errorText(rep.Err)}
			all = append(all, p)
		}
	}
	return all
}

func recall(d *board.RunDetail, kept state.RunRecord) {
	first, last := map[runStream]time.Time{}, map[runStream]time.Time{}
	for _, l := range kept.Log {
		if d.Source != "" && l.Source != "" && l.Source != d.Source {
			continue
		}
		d.Log = append(d.Log, board.Line(l))
		w := runStream{l.Source, l.Stream}
		if _, ok := first[w]; !ok {
			first[w] = l.At
		}
		last[w] = l.At
	}
	type outcome struct{ Stream, Destination, Error, Hint string }
	outcomes := map[[2]string]outcome{}
	for _, s := range decode[struct{ Streams []outcome }](string(kept.Report)).Streams {
		outcomes[[2]string{s.Stream, s.Destination}] = s
	}
	for i := range d.Passes {
		p := &d.Passes[i]
		w := runStream{p.Source, p.Stream}
		if at, ok := first[w]; ok && last[w].After(at) {
			p.Started, p.Ended = at, last[w]
		}
		if p.Source == "" { // for a run over several sources, the journal does not store the errors of single streams
			o := outcomes[[2]string{p.Stream, p.Destination}]
			p.Error, p.Hint = cmp.Or(o.Error, p.Error), o.Hint
		}
	}
}

func own(c board.Change) bool { return load.IsInternal(c.Table) }
