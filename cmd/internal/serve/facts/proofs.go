package facts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

type counts struct {
	pipeline.Counts
	Requests int
	Streams  map[pipeline.Status]int
	Open     map[pipeline.Status][]string
	Words    map[string]string
}

func (c counts) open(visit func(stream string, status pipeline.Status)) {
	for status := range c.Streams {
		for _, s := range c.Open[status] {
			visit(s, status)
		}
	}
}

func (b *snapshot) readRuns(ctx context.Context, d load.Destination) error {
	all := map[string]board.Run{}
	err := scan(ctx, d, load.Runs, func(r row) {
		c := decode[counts](r.text("counts"))
		run := b.run(r, c)
		if was, ok := all[run.ID]; ok {
			run = together(was, run)
		}
		all[run.ID] = run
		if len(all) > 2*mostRuns {
			b.runs = lastRuns(all)
		}
		source := b.keyOf(r).Source
		c.open(func(stream string, status pipeline.Status) {
			k := state.Key{Pipeline: run.Pipeline, Source: source, Stream: stream}
			if b.last[k].run <= run.ID && (len(b.last) < mostStreams || b.last[k].run != "") {
				b.last[k] = outcome{run.ID, status, c.Words[stream]}
			}
		})
	})
	b.runs = lastRuns(all)
	for _, r := range b.runs[:min(len(b.runs), mostProofs)] {
		b.newestProofs[r.ID] = &proofs{}
	}
	if err != nil {
		return err
	}
	return scan(ctx, d, load.Runs, func(r row) { b.newestProofs[r.text("run")].addOpen(b, r) })
}

func lastRuns(all map[string]board.Run) []board.Run {
	runs := slices.SortedFunc(maps.Values(all), func(x, y board.Run) int { return strings.Compare(y.ID, x.ID) })
	for len(runs) > mostRuns {
		delete(all, runs[len(runs)-1].ID)
		runs = runs[:len(runs)-1]
	}
	return runs
}

func (b *snapshot) run(r row, c counts) board.Run {
	run := board.Run{
		ID: r.text("run"), Pipeline: r.text("pipeline"), Destinations: []string{b.part.Name}, Status: pipeline.Status(r.text("status")),
		Started: r.time("started_at"), Ended: r.time("ended_at"), Counts: c.Counts, Requests: c.Requests, Error: r.text("error"),
	}
	if source := b.keyOf(r).Source; source != "" {
		run.Source, run.Sources = source, 1
	}
	for _, n := range c.Streams {
		run.Streams += n
	}
	c.open(func(string, pipeline.Status) { run.Open++ })
	return run
}

// together() combines two parts of a run into one. If their statuses differ, the combined status is running if one part
// still runs, and otherwise partial. // Invariant 14
func together(a, b board.Run) board.Run {
	a.Source, a.Sources = "", a.Sources+b.Sources
	a.Counts = a.Counts.Add(b.Counts)
	a.Requests, a.Streams, a.Open = a.Requests+b.Requests, a.Streams+b.Streams, a.Open+b.Open
	a.Error = cmp.Or(a.Error, b.Error)
	if b.Started.Before(a.Started) {
		a.Started = b.Started
	}
	switch {
	case a.Ended.IsZero() || b.Ended.IsZero():
		a.Ended = time.Time{}
	case a.Ended.Before(b.Ended):
		a.Ended = b.Ended
	}
	switch {
	case a.Status == b.Status:
	case a.Status == pipeline.StatusRunning || b.Status == pipeline.StatusRunning:
		a.Status = pipeline.StatusRunning
	default:
		a.Status = pipeline.StatusPartial
	}
	return a
}

type proofs struct {
	passes  []board.Pass
	open    map[runStream]outcome
	omitted bool // there are too many passes to keep them in memory; they are read from the destination on request
}

// addOpen adds the streams that a run did not complete. If the run's passes are not in memory, p is nil, and addOpen
// does nothing.
func (p *proofs) addOpen(b *snapshot, r row) {
	if p == nil {
		return
	}
	c, source := decode[counts](r.text("counts")), b.keyOf(r).Source
	c.open(func(stream string, status pipeline.Status) {
		if p.open == nil {
			p.open = map[runStream]outcome{}
		}
		if p.omitted = p.omitted || len(p.open) >= mostPasses; !p.omitted {
			p.open[runStream{source, stream}] = outcome{r.text("run"), status, c.Words[stream]}
		}
	})
}

func (p *proofs) all(destination string) []board.Pass {
	certified := map[runStream]bool{}
	for i := range p.passes {
		one := &p.passes[i]
		w := runStream{one.Source, one.Stream}
		if o, ok := p.open[w]; ok {
			one.Status, one.Error = o.status, o.err
		}
		certified[w] = true
	}
	for _, w := range slices.SortedFunc(maps.Keys(p.open), func(a, b runStream) int {
		return cmp.Or(strings.Compare(a.source, b.source), strings.Compare(a.stream, b.stream))
	}) {
		if !certified[w] {
			p.passes = append(p.passes, board.Pass{Source: w.source, Stream: w.stream, Destination: destination, Status: p.open[w].status, Error: p.open[w].err})
		}
	}
	return p.passes
}

func (b *snapshot) dropMostProofs() int {
	most := slices.MaxFunc(slices.Collect(maps.Values(b.newestProofs)), func(x, y *proofs) int { return cmp.Compare(len(x.passes), len(y.passes)) })
	n := len(most.passes)
	most.passes, most.omitted = nil, true
	return n
}

func (b *snapshot) knows(run string) bool {
	return slices.ContainsFunc(b.runs, func(r board.Run) bool { return r.ID == run })
}

func (b *snapshot) proofs(ctx context.Context, run string) ([]board.Pass, error) {
	if p := b.newestProofs[run]; p != nil && !p.omitted {
		held := proofs{passes: slices.Clone(p.passes), open: p.open}
		return held.all(b.part.Name), nil
	}
	ctx, cancel := context.WithTimeout(ctx, proofsWithin)
	defer cancel()
	d, err := b.part.Open(ctx)
	if err != nil {
		return nil, err
	}
	var p proofs
	err = scan(ctx, d, load.Certificates, func(r row) {
		if runOf(r.text("run")) == run && len(p.passes) < mostPasses {
			p.passes = append(p.passes, b.pass(r))
		}
	})
	if err == nil {
		err = scan(ctx, d, load.Runs, func(r row) {
			if r.text("run") == run {
				p.addOpen(b, r)
			}
		})
	}
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, fmt.Errorf("read certificates of run %s: %w", run, err)
	}
	return p.all(b.part.Name), nil
}

const proofsWithin = 20 * time.Second
