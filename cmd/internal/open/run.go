package open

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
)

// Run is a pipeline that was opened for a command: its streams, source and destinations.
type Run struct {
	Conf         *config.Config
	Pipeline     config.Pipeline
	Streams      []config.Stream
	Source       *Source
	Destinations []pipeline.Destination
	Memory       MemoryPlan       // memory that the run may use
	Now          func() time.Time // the clock of the state

	opener *Opener
}

// Pipeline opens a pipeline with the streams that match one of the given patterns. If dry is true, Pipeline does not
// open the destinations.
func (o *Opener) Pipeline(ctx context.Context, c *config.Config, p config.Pipeline, only []string, dry bool) (*Run, error) {
	streams, err := o.Choose(c, p, only)
	if err == nil {
		err = o.Checkable(c, p, streams)
	}
	if err != nil {
		return nil, err
	}
	r, err := o.Streams(c, p, streams)
	if err != nil || dry {
		return r, err
	}
	if err := r.OpenDestinations(ctx); err != nil {
		return nil, errors.Join(err, r.Source.Close())
	}
	r.Memory = o.MemoryFor(c, p)
	r.Memory.Lists = min(len(streams), pipeline.DefaultWorkers)
	o.heap.add(r)
	return r, nil
}

// Streams opens streams of a pipeline, without the destinations.
func (o *Opener) Streams(c *config.Config, p config.Pipeline, streams []config.Stream) (*Run, error) {
	r := &Run{Conf: c, Pipeline: p, Streams: streams, Now: o.State(c).Now, opener: o}
	var err error
	r.Source, err = o.Source(c, p, streams, nil)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Config returns the run's configuration for package pipeline.
func (r *Run) Config() pipeline.Config {
	cfg := pipeline.Config{
		Name: r.Pipeline.Name, From: r.Pipeline.From[0].Text, Source: r.Source.Client, Destinations: r.Destinations, Streams: Plain(r.Streams),
		Log: map[string]bool{}, Checks: map[string][]schemas.Check{}, SQL: map[string]pipeline.SQL{}, OwnOrigin: map[string]bool{}, Catalogue: Plain(r.Conf.Streams), Now: r.Now, Keep: r.Pipeline.Keep, ByteBudget: r.Memory.Budget, GroupBytes: r.Memory.Group, GroupRows: r.Memory.Rows,
	}
	if from, ok := r.Conf.Source(r.Pipeline.From[0].Text); ok {
		cfg.Origins = Origins(from, r.Streams)
	}
	for _, d := range r.Destinations {
		if by := r.lakeSQL(d); by != nil {
			cfg.SQL[d.Name] = by
		}
	}
	cfg.KeepEvents = KeepEvents(r.Conf, r.Pipeline.From[0].Text)
	for _, s := range r.Streams {
		cfg.Log[s.Name], cfg.OwnOrigin[s.Name] = s.Log, s.NeedsClient()
		for _, check := range s.Checks {
			cfg.Checks[s.Name] = append(cfg.Checks[s.Name], check.Check)
		}
	}
	return cfg
}

// KeepEvents returns how long the webhook events of a source stay in the destinations; 0: forever. The longest period of
// the pipelines that read the source applies, because the pipelines share these events.
func KeepEvents(c *config.Config, source string) (longest time.Duration) {
	for _, p := range c.Pipelines {
		switch reads := slices.ContainsFunc(p.From, func(f config.Ref) bool { return f.Text == source }); {
		case reads && p.Keep == 0:
			return 0
		case reads:
			longest = max(longest, p.Keep)
		}
	}
	return longest
}

// Publish copies the loaded data for readers, for each destination with `publish:` in the configuration. A
// stopped run publishes nothing.
func (r *Run) Publish(ctx context.Context) error {
	var errs []error
	for _, d := range r.Destinations {
		_, unreached := d.Destination.(unavailable)
		of, _ := r.Conf.Destination(d.Name)
		of = of.For(r.Pipeline.From[0].Text)
		if of.Publish == "" || unreached || ctx.Err() != nil {
			continue
		}
		p, err := r.opener.Kinds.Of(r.Conf, of)
		if err == nil {
			err = p.Publish(ctx, of, Whole(d.Destination))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("destination %s: %w; the rows were loaded, but readers keep the previous copy", d.Name, err))
		}
	}
	return errors.Join(errs...)
}

// Forget frees the memory that the destinations use for the run's source, because the process goes on with other
// sources. // Invariant 6
func (r *Run) Forget() {
	for _, d := range r.Destinations {
		if s, ok := Whole(d.Destination).(load.Sharer); ok {
			s.Forget(r.Pipeline.Name, r.Pipeline.From[0].Text)
		}
	}
}

// Close closes the destinations and the source. A run can be closed before its destinations are open.
func (r *Run) Close() {
	r.opener.heap.remove(r)
	r.closeDestinations()
	_ = r.Source.Close() // closing a connection loses nothing
}

// OpenDestinations opens the destinations of the run. If one of several cannot be reached, the others still get their
// rows.
func (r *Run) OpenDestinations(ctx context.Context) error {
	for _, to := range r.Pipeline.To {
		d, _ := r.Conf.Destination(to.Text)
		dest, err := r.opener.Part(ctx, r.Conf, d, r.Pipeline.From[0].Text)
		if err != nil && len(r.Pipeline.To) > 1 && ctx.Err() == nil && failure.CodeOf(ctx, err) != failure.ExitUsage {
			dest, err = unavailable{err}, nil
		}
		if err != nil {
			r.closeDestinations()
			return err
		}
		r.Destinations = append(r.Destinations, pipeline.Destination{Name: d.Name, Destination: dest})
	}
	return nil
}

func (r *Run) closeDestinations() {
	for _, d := range r.Destinations {
		if err := d.Close(); err != nil {
			r.opener.Log.Warn("close destination", "destination", d.Name, "error", err)
		}
	}
	r.Destinations = nil
}

// UnitSource returns the source of the run's units.
func (r *Run) UnitSource() string {
	if r.Pipeline.MultiSource {
		return r.Pipeline.From[0].Text
	}
	return ""
}
