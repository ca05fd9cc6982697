package main

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state"
)

// sourceRecords is what the state stores about sources.
type sourceRecords struct {
	paused  map[string]state.Pause
	records []state.SourceRecord
}

// readSources reads the records for one pipeline, or for all if pipeline is "". They are empty if
// nothing is stored yet.
func (a *app) readSources(ctx context.Context, c *config.Config, pipeline string) (b sourceRecords, err error) {
	s, err := a.open.State(c).ReadSources(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return b, sourcesTrouble(err)
	}
	defer s.Close()
	if b.paused, err = s.Paused(ctx); err == nil {
		b.records, err = s.Records(ctx, pipeline)
	}
	if err != nil {
		return b, sourcesTrouble(err)
	}
	return b, nil
}

// readPauses reads only which sources are paused.
func (a *app) readPauses(ctx context.Context, c *config.Config) (map[string]state.Pause, error) {
	s, err := a.open.State(c).ReadSources(ctx)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer s.Close()
	return s.Paused(ctx)
}

// sourcesTrouble adds a hint to an error that occurred when the records of sources were read.
func sourcesTrouble(err error) error {
	if errors.Is(err, state.ErrLocked) {
		return err
	}
	return open.StateTrouble(err)
}

// keepSources stores the outcomes of sources.
func (a *app) keepSources(ctx context.Context, c *config.Config, records []state.SourceRecord) error {
	s, err := a.open.State(c).OpenSources(ctx)
	if err != nil {
		return err
	}
	return errors.Join(s.Keep(ctx, records), s.Close())
}

// record returns what is stored about a source's run.
func (m *multiSource) record(run string, o fleet.Outcome, silent bool) state.SourceRecord {
	r := state.SourceRecord{
		Pipeline: m.pipeline.Name, Source: o.Source, Run: run, Status: string(o.Status),
		Error: wire.NewRedactor(m.conf.Secrets...).Redact(o.Error), // Invariant 5
		At:    m.open.State(m.conf).Now(), Rows: o.Written, Requests: o.Requests,
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

// startOrder returns the sources that are not paused, in the order in which they start. Sources with
// fewer failures in a row start first, so that no source waits for a source that did not answer before.
// Of sources with equally many failures, the source that was read the longest ago starts first.
func (m *multiSource) startOrder(ctx context.Context, sources []config.Ref) (turns []orderedSource, paused int, err error) {
	stored, err := m.readSources(ctx, m.conf, m.pipeline.Name)
	if err != nil {
		return nil, 0, err
	}
	last := map[string]state.SourceRecord{}
	for _, r := range stored.records {
		last[r.Source] = r
	}
	for _, s := range sources {
		if _, is := stored.paused[s.Text]; !is {
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
