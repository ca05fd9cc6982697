package execute

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// SourceRecords is what the state stores about sources.
type SourceRecords struct {
	Paused  map[string]state.Pause
	Records []state.SourceRecord
}

// ReadSources reads what the state stores about the sources of one pipeline, or of all pipelines if the name is "".
// The result is empty if nothing is stored yet.
func ReadSources(ctx context.Context, from state.Store, pipeline string) (b SourceRecords, err error) {
	s, err := from.ReadSources(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return b, SourcesTrouble(err)
	}
	defer s.Close()
	if b.Paused, err = s.Paused(ctx); err == nil {
		b.Records, err = s.Records(ctx, pipeline)
	}
	if err != nil {
		return b, SourcesTrouble(err)
	}
	return b, nil
}

// SourcesTrouble adds a hint to an error that occurred when the records of sources were read.
func SourcesTrouble(err error) error {
	if errors.Is(err, state.ErrLocked) {
		return err
	}
	return open.StateTrouble(err)
}

// paused reports whether a source is paused. If the state cannot be read, it returns false, because the planner of the
// run has already left out paused sources.
func (x *Executor) paused(ctx context.Context, c *config.Config, source string) bool {
	s, err := x.Open.State(c).ReadSources(ctx)
	var paused map[string]state.Pause
	if err == nil {
		defer s.Close()
		paused, err = s.Paused(ctx)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		x.Open.Log.Warn("cannot read which sources are paused", "error", err)
	}
	_, is := paused[source]
	return is
}

// keepSources stores the outcomes of sources, even if ctx has just ended.
func (x *Executor) keepSources(ctx context.Context, c *config.Config, records ...state.SourceRecord) {
	ctx, cancel := pipeline.WithGrace(ctx, recordGrace)
	defer cancel()
	s, err := x.Open.State(c).OpenSources(ctx)
	if err == nil {
		err = errors.Join(s.Keep(ctx, records), s.Close())
	}
	if err != nil {
		x.Open.Log.Warn("outcomes of sources are not recorded", "error", err)
	}
}

// sourceRecord returns what is stored about a source's run.
func (x *Executor) sourceRecord(c *config.Config, name, run string, o fleet.Outcome, silent bool) state.SourceRecord {
	r := state.SourceRecord{
		Pipeline: name, Source: o.Source, Run: run, Status: string(o.Status),
		Error: x.Redactor.Redact(o.Error), // Invariant 5
		At:    x.Open.State(c).Now(), Rows: o.Written, Requests: o.Requests,
	}
	if !o.Complete() {
		r.Failures, r.Silent = 1, silent
	}
	return r
}

// orderedSource is a source in the order of a run.
type orderedSource struct {
	name   string
	silent bool // the source did not answer the last time
}

// startOrder returns the sources that are not paused, in the order in which they start. Sources with fewer failures in
// a row start first, so that no source waits for a source that did not answer before. Sources with the same number of
// failures start in the order of their last runs, the oldest first.
func (x *Executor) startOrder(ctx context.Context, c *config.Config, p config.Pipeline, sources []config.Ref) (turns []orderedSource, paused int, err error) {
	stored, err := ReadSources(ctx, x.Open.State(c), p.Name)
	if err != nil {
		return nil, 0, err
	}
	last := map[string]state.SourceRecord{}
	for _, r := range stored.Records {
		last[r.Source] = r
	}
	for _, s := range sources {
		if _, is := stored.Paused[s.Text]; !is {
			turns = append(turns, orderedSource{s.Text, last[s.Text].Silent})
		}
	}
	slices.SortStableFunc(turns, func(a, b orderedSource) int {
		x, y := last[a.name], last[b.name]
		if x.Failures != y.Failures {
			return x.Failures - y.Failures
		}
		return x.At.Compare(y.At)
	})
	return turns, len(sources) - len(turns), nil
}
