package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/knowledge"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state/plainerror"
)

// discoverFlags are the flags and arguments of discover.
type discoverFlags struct {
	streams  []string
	all      bool
	requests int
}

func discoverCmd(a *app) *cobra.Command {
	var f discoverFlags
	cmd := &cobra.Command{
		Use:   "discover [STREAM…]",
		Short: "learn how streams answer, with a bounded number of read requests, and print the evidence",
		Long: `Learns how streams answer: where the records are in a response, their key, the
paging and the filters. It sends a bounded number of read requests per stream and
prints the results. A line with + is evidence, a line with - is a rejected
hypothesis. What is learned about a stream is stored for later runs, in the
destinations of the pipelines that contain the stream. Without a name, discover
probes only streams that were not learned yet, or whose stored results no longer fit.

Exit codes: 0 every probed stream was learned, 75 some were not.`,
		Example: `  penstock discover crm.leads 'sales.*'
  penstock discover --requests 100`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.requests < 0 {
				return failure.Usage("", "--requests cannot be negative")
			}
			c, err := a.open.Load()
			if err != nil {
				return err
			}
			f.streams = args
			return discoverStreams(cmd.Context(), a, c, f)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&f.all, "all", false, "also probe streams with stored conventions")
	fl.IntVar(&f.requests, "requests", 0, "total `budget` of requests for all streams; 0 means as many as needed")
	return cmd
}

// discoverStreams probes the streams of every pipeline and prints what it learned.
func discoverStreams(ctx context.Context, a *app, c *config.Config, f discoverFlags) error {
	d := &discovery{app: a, conf: c, flags: f, found: map[string]extract.Convention{}}
	var refusal error
	for _, p := range d.pipelines() {
		streams, err := c.Select(p, f.streams)
		if err != nil {
			refusal = err // another pipeline may have these streams
			continue
		}
		if err := d.pipeline(ctx, p, streams); err != nil {
			return fmt.Errorf("discover %s: %w", p.Name, err)
		}
	}
	if !d.any && refusal != nil {
		return refusal
	}
	return d.conclude()
}

// discovery is the state of one discover command.
type discovery struct {
	*app
	conf  *config.Config
	flags discoverFlags
	any   bool         // at least one pipeline has the named streams
	spent atomic.Int64 // number of requests sent

	mu              sync.Mutex
	found           map[string]extract.Convention // conventions by source and stream
	settled, failed int                           // number of streams that were learned, and number of the others
}

// pipelines returns the configured pipelines. If the user has named a stream that no pipeline reads from the first
// source, the result also has a pipeline for this stream, without a destination.
func (d *discovery) pipelines() []config.Pipeline {
	all := slices.Clone(d.conf.Pipelines)
	for _, name := range d.flags.streams {
		if strings.Contains(name, "*") {
			continue
		}
		if p := previewPipeline(d.conf, d.conf.Sources[0], name); len(p.To) == 0 {
			p.Name = "discover"
			all = append(all, p)
		}
	}
	return all
}

// pipeline probes the streams of one pipeline, and stores the conventions in its destinations.
func (d *discovery) pipeline(ctx context.Context, p config.Pipeline, streams []config.Stream) error {
	d.any = true
	r, err := d.open.Streams(d.conf, p, streams)
	if err != nil {
		return err
	}
	defer r.Close()
	if len(p.To) > 0 {
		var unlock func()
		if ctx, unlock, err = d.open.Locks.Take(ctx, d.open.State(d.conf), p.Name); err != nil {
			return err
		}
		defer unlock()
		if err = r.OpenDestinations(ctx); err != nil {
			return err
		}
	}
	if r.Streams, err = d.unlearned(ctx, r); err != nil {
		return err
	}
	found := d.ask(ctx, r)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if len(p.To) == 0 || len(found) == 0 {
		return nil
	}
	return pipeline.Remember(ctx, r.Config(), found)
}

// unlearned() returns the streams to probe. If the user has named streams, or set --all, it returns all streams of r.
// Otherwise it leaves out child streams, streams of files, and streams for which every destination has a convention
// that still fits.
func (d *discovery) unlearned(ctx context.Context, r *open.Run) ([]config.Stream, error) {
	if d.flags.all || len(d.flags.streams) > 0 {
		return r.Streams, nil
	}
	known := make([]pipeline.Memories, len(r.Destinations))
	for i, dest := range r.Destinations {
		var err error
		if known[i], err = pipeline.Recall(ctx, dest, r.Pipeline.Name); err != nil {
			return nil, fmt.Errorf("destination %s: %w", dest.Name, err)
		}
	}
	return slices.DeleteFunc(slices.Clone(r.Streams), func(s config.Stream) bool {
		fits := func(m pipeline.Memories) bool { return m[s.Name].Fits(s.Stream) }
		return s.Parent != "" || s.Class == schemas.ClassFile || len(known) > 0 && !slices.ContainsFunc(known, func(m pipeline.Memories) bool { return !fits(m) })
	}), nil
}

// ask probes several streams at a time, and prints each result. It returns the conventions that it found, by stream.
func (d *discovery) ask(ctx context.Context, r *open.Run) map[string]extract.Convention {
	found := map[string]extract.Convention{}
	var probes errgroup.Group
	probes.SetLimit(pipeline.DefaultWorkers)
	for _, s := range r.Streams {
		probes.Go(func() error {
			c, err := d.one(ctx, r, s)
			if ctx.Err() != nil {
				return nil
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			if err == nil && c.Of != "" {
				found[s.Name] = c
			}
			return d.print(r, s, c, err)
		})
	}
	_ = probes.Wait() // only writing the output can fail, and that error is reported when the output is closed
	return found
}

var (
	errNoBudget = errors.New("the request budget is used up")
	errByParent = errors.New("a child stream is learned when the first record of its parent is read")
	errFile     = errors.New("the stream returns files, so there is nothing to learn")
)

// one() returns the convention of a stream. It probes the stream, unless it was already probed for another pipeline.
// For a child stream and for a stream of files it returns an error. It also returns an error if the request budget is
// used up.
func (d *discovery) one(ctx context.Context, r *open.Run, s config.Stream) (extract.Convention, error) {
	of := r.Pipeline.From[0].Text + " " + s.Name
	d.mu.Lock()
	c, known := d.found[of]
	d.mu.Unlock()
	switch {
	case known && c.Fits(s.Stream):
		return c, nil
	case s.Parent != "":
		return c, errByParent
	case s.Class == schemas.ClassFile:
		return c, errFile
	case d.flags.requests > 0 && d.spent.Load() >= int64(d.flags.requests):
		return c, errNoBudget
	}
	c, err := r.Source.Client.Explore(ctx, s.Stream)
	d.spent.Add(int64(c.Requests))
	if err == nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.found[of] = c
	}
	return c, err
}

// discovered is the line that `discover --json` prints for a stream.
type discovered struct {
	Stream   string         `json:"stream"`
	Pipeline string         `json:"pipeline"`
	Settled  bool           `json:"settled"`
	Requests int            `json:"requests"`
	Facts    []extract.Fact `json:"facts"`
	Error    string         `json:"error,omitempty"`
	Hint     string         `json:"hint,omitempty"`
}

// print prints what was learned about a stream. The caller must hold d.mu.
func (d *discovery) print(r *open.Run, s config.Stream, c extract.Convention, err error) error {
	known := errors.Is(err, errByParent) || errors.Is(err, errFile)
	switch {
	case err == nil:
		d.settled++
	case !known:
		d.failed++
	}
	k := knowledge.Knowledge{Stream: s, Learned: c}
	out := discovered{Stream: s.Name, Pipeline: r.Pipeline.Name, Settled: err == nil, Requests: c.Requests, Facts: []extract.Fact{}}
	if err == nil {
		out.Facts = k.Facts()
	} else {
		out.Error = plainerror.Text(err.Error())
		if !known {
			out.Hint = render.Remedy(err, s.Name)
		}
	}
	if d.json {
		out.Hint = render.Suggest(out.Hint, d.open.File)
		return render.NewEncoder(d.out).Encode(out)
	}
	name := s.Name
	if len(d.conf.Pipelines) > 1 && len(r.Pipeline.To) > 0 { // the output may have the stream once for each pipeline
		name += " of " + r.Pipeline.Name
	}
	_, failed := fmt.Fprintf(d.out, "%s: %s\n", name, render.Plural(c.Requests, "request"))
	knowledge.PrintFacts(d.out, "  ", out.Facts)
	if out.Error != "" {
		_, failed = fmt.Fprintf(d.out, "  %s\n", render.Printable(out.Error, false))
	}
	if out.Hint != "" {
		failed = render.Hint(d.out, "  ", out.Hint, d.open.File)
	}
	return failed
}

// conclude prints the totals.
func (d *discovery) conclude() error {
	if !d.json {
		budget := ""
		if d.flags.requests > 0 {
			budget = fmt.Sprintf(" of a budget of %s", render.Grouped(int64(d.flags.requests)))
		}
		if _, err := fmt.Fprintf(d.out, "\n%d learned, %d not learned; %s requests%s\n", d.settled, d.failed, render.Grouped(d.spent.Load()), budget); err != nil {
			return err
		}
	}
	if d.failed > 0 {
		return failure.Exit(failure.ExitPartial)
	}
	return nil
}
