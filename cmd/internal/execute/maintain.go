package execute

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state/plainerror"
)

// Maintained says which old rows of penstock's own tables were removed from a destination.
type Maintained struct {
	Pipeline    string    `json:"pipeline"`
	Source      string    `json:"source,omitempty"` // source of a pipeline with several sources
	Destination string    `json:"destination"`
	Before      time.Time `json:"before,omitzero"` // older rows were removed; zero: the pipeline keeps all rows
	load.Trimmed
	Error string `json:"error,omitempty"`
}

// Maintain does for the sources of a pipeline what the first run of a day does: it removes the rows of penstock's own
// tables that are older than `keep:`. It leaves out destinations into which nothing was loaded. If a source or a
// destination fails, Maintain goes on with the others, and returns all errors.
func (x *Executor) Maintain(ctx context.Context, c *config.Config, p config.Pipeline) (all []Maintained, failed []error) {
	for _, to := range p.To {
		d, _ := c.Destination(to.Text)
		parts := [][]config.Ref{p.From} // the sources of a part have the same tables
		if d.PerSource() {
			parts = parts[:0]
			for i := range p.From {
				parts = append(parts, p.From[i:i+1])
			}
		}
		for _, sources := range parts {
			done, errs := x.maintainPart(ctx, c, p, d.For(sources[0].Text), sources)
			all, failed = append(all, done...), append(failed, errs...)
		}
	}
	return all, failed
}

// maintainPart removes old rows from a part of a destination. It opens the part once for all of its sources.
func (x *Executor) maintainPart(ctx context.Context, c *config.Config, p config.Pipeline, d config.Destination, sources []config.Ref) (all []Maintained, failed []error) {
	kind, err := x.Open.Kinds.Of(c, d)
	if err != nil {
		return nil, []error{err}
	}
	if kind.Absent != nil && kind.Absent(d) != nil {
		return nil, nil
	}
	dest, err := x.Open.Destination(ctx, c, d)
	if err != nil {
		return nil, []error{err}
	}
	for _, source := range sources {
		one, err := x.trim(ctx, c, p.ForSource(source.Text), open.Whole(dest))
		one.Pipeline, one.Destination = p.Name, d.Name
		if p.MultiSource {
			one.Source = source.Text
		}
		if err != nil {
			err = fmt.Errorf("maintain %s in destination %s: %w", p.ForSource(source.Text).Key(), d.Name, err)
			one.Error = x.Redactor.Redact(plainerror.Text(err.Error()))
			failed = append(failed, err)
		}
		all = append(all, one)
	}
	if err := dest.Close(); err != nil {
		failed = append(failed, err)
	}
	return all, failed
}

// trim removes the old rows of a pipeline that reads one source. Meanwhile no run of it can begin.
func (x *Executor) trim(ctx context.Context, c *config.Config, p config.Pipeline, dest load.Destination) (done Maintained, err error) {
	able, ok := dest.(load.Trimmer)
	if !ok || p.Keep == 0 {
		return done, nil
	}
	streams, err := c.Select(p, nil)
	if err != nil {
		return done, err
	}
	ctx, unlock, err := x.Open.Locks.Take(ctx, x.Open.State(c), p.Key())
	if err != nil {
		return done, err
	}
	defer unlock()
	from := p.From[0].Text
	old := pipeline.Old(p.Name, from, open.Plain(streams), p.Keep, open.KeepEvents(c, from), x.Open.State(c).Now())
	done.Before = old.Before
	done.Trimmed, err = able.Trim(ctx, old)
	return done, err
}
