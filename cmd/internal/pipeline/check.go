package pipeline

import (
	"context"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/checks"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// check runs the checks of all streams, after all streams were read. So a query that joins tables sees the rows of this
// run in each of them. A stopped run makes no checks.
func (r *run) check(ctx context.Context) {
	for i := range r.reports {
		s := &r.reports[i]
		of := r.Checks[s.Stream]
		at := slices.IndexFunc(r.Destinations, func(d Destination) bool { return d.Name == s.Destination })
		if len(of) == 0 || at < 0 || r.Options.DryRun || s.Status == StatusStopped || r.health.leftOut(s.Destination) != nil {
			continue
		}
		t, err := r.tableToCheck(ctx, r.Destinations[at], *s)
		for _, c := range of {
			if ctx.Err() != nil {
				return
			}
			if !due(*s, c) {
				continue
			}
			var result checks.Result
			there, failed := true, err
			if err == nil {
				failed = Guard("check", func() error { result, there = t.Run(ctx, c, r.Now); return nil })
			}
			if failed != nil {
				result = checks.Broken(c, failed, r.Now())
			}
			if (there || s.ended) && ctx.Err() == nil {
				s.Checks = append(s.Checks, result)
			}
		}
	}
}

// due reports whether a check runs for a stream. If the run has committed the end of no pass over the stream, the table
// may lack rows. Then only the age of its rows is checked.
func due(s StreamReport, c schemas.Check) bool {
	known := slices.ContainsFunc(s.Checks, func(r checks.Result) bool { return r.Name == c.Name }) // the check has kept a commit back
	return !known && (s.ended || c.Kind == schemas.CheckFresh)
}

// tableToCheck returns the table of a stream in a destination.
func (r *run) tableToCheck(ctx context.Context, d Destination, s StreamReport) (checks.Table, error) {
	t := checks.Table{Key: r.Key(s.Stream), Name: s.Table, Source: r.From}
	if by := r.SQL[d.Name]; by != nil {
		t.Checker, t.Query = by, by.Ask
	} else {
		t.Checker, _ = part(d.Destination).(load.Checker)
		if q, able := whole(d.Destination).(load.Querier); able {
			t.Query = func(_ context.Context, use func(load.Querier) error) error { return use(q) }
		}
	}
	tables, err := d.Tables(ctx, s.Table)
	for _, of := range tables {
		if of.Name == s.Table {
			t.Current = of.Mode == schemas.History || of.Mode == schemas.Merge && len(of.Key) > 0
		}
	}
	return t, err
}

// checkRows returns the rows of [load.Checks] for a destination.
func (r *run) checkRows(rep Report, destination string) (rows [][]any) {
	for _, s := range rep.in(destination).Streams {
		for _, c := range s.Checks {
			rows = append(rows, c.Row(r.Run, state.Key{Pipeline: r.Name, Stream: s.Stream}, s.Table))
		}
	}
	return rows
}
