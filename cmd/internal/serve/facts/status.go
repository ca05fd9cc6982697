package facts

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/plainerror"
)

const shownSlots = 30

// Pipelines implements board.Health.
func (f *Facts) Pipelines(ctx context.Context) ([]board.Pipeline, error) {
	var all []board.Pipeline
	for _, s := range f.daemon.Hub().Statuses() {
		p := board.Pipeline{Name: s.Name, From: list(s.Sources), To: list(s.Destinations), Paused: s.Paused, Next: list(s.Next), Slots: []board.Slot{}}
		p.Schedule, p.Zone = split(s.Schedule)
		if s.Running != nil {
			p.Running = s.Running.Run
		}
		slots, err := f.Journal.Slots(ctx, s.Name, shownSlots)
		if err != nil {
			return nil, err
		}
		for _, r := range slots {
			p.Slots = append(p.Slots, slotOf(r))
		}
		all = append(all, p)
	}
	return all, nil
}

func split(schedule string) (cron, zone string) {
	i := strings.LastIndexByte(schedule, ' ')
	if i < 0 {
		return schedule, ""
	}
	if _, err := time.LoadLocation(schedule[i+1:]); err != nil {
		return schedule, "UTC"
	}
	return schedule[:i], schedule[i+1:]
}

// slotOf converts a slot of the journal. If a slot was skipped although it should have run, its state is "missed".
func slotOf(r state.SlotRecord) board.Slot {
	s := board.Slot{Due: r.Due, State: string(r.State), Why: r.Why, Run: r.Run, Started: r.Started, Ended: r.Ended, Status: pipeline.Status(r.Status)}
	switch {
	case r.State == state.SlotWaiting:
		s.State = "running"
	case r.State == state.SlotSkipped && serve.Skip(r.Cause).Missed():
		s.State = "missed"
	}
	return s
}

func list[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

// Streams implements board.Health. Each configured stream has one item per destination. For a pipeline with
// several sources, streams that no run has read yet are left out.
func (f *Facts) Streams(ctx context.Context, source string) (board.List[board.Stream], error) {
	snapshots := f.snapshotsOf(ctx, source)
	all := board.List[board.Stream]{Hint: cmp.Or(separateHint(snapshots), omittedHint(snapshots))}
	for _, s := range f.daemon.Hub().Statuses() {
		if !reads(s.Sources, source) {
			continue
		}
		for _, b := range snapshots {
			switch {
			case !slices.Contains(s.Destinations, b.part.Name) || !reads(s.Sources, b.part.Source):
			case len(s.Sources) > 1:
				all.Items = append(all.Items, b.each(s)...)
			default:
				all.Items = append(all.Items, b.of(s)...)
			}
		}
	}
	all.Total = len(all.Items)
	return all, nil
}

// each() returns the streams of a pipeline with several sources.
func (b *snapshot) each(s serve.Status) []board.Stream {
	streams, sources := set(s.Streams), set(s.Sources)
	var all []board.Stream
	for k, one := range b.streams {
		if k.Pipeline == s.Name && streams[k.Stream] && sources[k.Source] {
			all = append(all, *one)
		}
	}
	slices.SortFunc(all, func(a, b board.Stream) int {
		return cmp.Or(strings.Compare(a.Source, b.Source), strings.Compare(a.Name, b.Name))
	})
	return all
}

func set(all []string) map[string]bool {
	m := make(map[string]bool, len(all))
	for _, s := range all {
		m[s] = true
	}
	return m
}

// of(s) returns the streams of a pipeline with one source. If the last run or the run in progress is newer than the
// snapshot, its outcome replaces the outcome in the snapshot.
func (b *snapshot) of(s serve.Status) []board.Stream {
	var all []board.Stream
	reports := b.newerReports(s)
	for _, name := range s.Streams {
		k := state.Key{Pipeline: s.Name, Source: b.part.Source, Stream: name}
		if len(s.Sources) == 1 && b.streams[k] == nil { // in tables that sources share, the key contains the source
			k.Source = s.Sources[0]
		}
		one := b.streams[k]
		if one == nil {
			one = &board.Stream{Pipeline: s.Name, Source: b.part.Source, Name: name, Table: strings.ReplaceAll(name, ".", "_"), Destination: b.part.Name}
		}
		now := *one
		if r, ok := reports[name]; ok && r.run > now.Run {
			r.apply(&now)
		}
		all = append(all, now)
	}
	return all
}

// streamReport is what the daemon knows about the last run of a stream.
type streamReport struct {
	pipeline.StreamReport
	run string
	at  time.Time
}

func (b *snapshot) newerReports(s serve.Status) map[string]streamReport {
	all := map[string]streamReport{}
	if s.Last != nil {
		for _, r := range s.Last.Streams {
			if r.Destination == b.part.Name && r.Backfill == "" {
				all[r.Stream] = streamReport{r, s.Last.Run, s.Last.Ended}
			}
		}
	}
	if s.Running != nil {
		for _, one := range s.Running.Streams {
			for _, r := range one.Reports {
				if r.Destination == b.part.Name && r.Backfill == "" {
					all[r.Stream] = streamReport{r, s.Running.Run, one.Updated}
				}
			}
		}
	}
	return all
}

func (e streamReport) apply(s *board.Stream) {
	outcome{e.run, e.Status, errorText(e.Err)}.apply(s)
	if e.Verdict == "" {
		return
	}
	s.Verdict, s.Why, s.Counts, s.Synced = e.Verdict, e.Reasons, e.Counts, e.at
	s.Rows = max(s.Rows-e.Counts.Deleted, e.Counts.Written+e.Counts.Unchanged)
	s.Recent = append(slices.Clip(s.Recent), board.PassSummary{Run: e.run, At: e.at, Verdict: e.Verdict, Fetched: e.Counts.Fetched, Changed: e.Counts.Written + e.Counts.Deleted})
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return plainerror.Text(err.Error())
}

// Now implements board.Live.
func (f *Facts) Now(context.Context) (board.Now, error) {
	now := board.Now{Since: f.since}
	for _, s := range f.daemon.Hub().Statuses() {
		if s.Running != nil {
			now.Running = append(now.Running, runningOf(s))
		}
	}
	slices.SortStableFunc(now.Running, func(a, b board.Running) int { return a.Started.Compare(b.Started) })
	for _, b := range f.rates.budgets(f.daemon.Hub().Statuses(), f.Clock()) {
		now.Budgets = append(now.Budgets, b.Gauge)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now.Notices = f.notices // not copied, because the content of the slice never changes
	return now, nil
}

func runningOf(s serve.Status) board.Running {
	r := board.Running{
		Run: s.Running.Run, Pipeline: s.Name, Trigger: string(s.Running.Trigger), Started: s.Running.Started, Streams: len(s.Streams) * max(1, len(s.Sources)),
		Ended: s.Running.Past.Streams, Pages: s.Running.Past.Pages, Requests: s.Running.Past.Requests, Records: s.Running.Past.Records,
	}
	for _, one := range s.Running.Streams {
		r.Pages += one.Pages
		r.Requests += one.Requests
		r.Records += one.Records
		if len(one.Reports) > 0 {
			r.Ended++
			continue
		}
		r.Reading = append(r.Reading, board.Reading{Source: one.Source, Stream: one.Stream, Since: one.Started, Records: one.Records, Total: max(0, one.Total)})
	}
	slices.SortStableFunc(r.Reading, func(a, b board.Reading) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Source, b.Source), strings.Compare(a.Stream, b.Stream))
	})
	return r
}
