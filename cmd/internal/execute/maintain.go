package execute

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/load"
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

// Maintain does for one pipeline and one source what the first run of a day does: it removes the rows of penstock's own
// tables that are older than `keep:`. It leaves out destinations into which nothing was loaded. If a destination fails,
// Maintain goes on with the others, and returns the errors joined. The pipeline p reads one source; see
// [config.Pipeline.ForSource].
func (x *Executor) Maintain(ctx context.Context, c *config.Config, p config.Pipeline) (all []Maintained, err error) {
	ctx, unlock, err := x.Open.Locks.Take(ctx, x.Open.State(c), p.Key())
	if err != nil {
		return nil, fmt.Errorf("maintain %s: %w", p.Key(), err)
	}
	defer unlock()
	streams, err := c.Select(p, nil)
	if err != nil {
		return nil, err
	}
	from := p.From[0].Text
	old := pipeline.Old(p.Name, from, open.Plain(streams), p.Keep, open.KeepEvents(c, from), x.Open.State(c).Now())
	var errs []error
	for _, to := range p.To {
		done := Maintained{Pipeline: p.Name, Destination: to.Text, Before: old.Before}
		if p.MultiSource {
			done.Source = from
		}
		loaded, err := x.isLoaded(c, to.Text, from)
		if err == nil && loaded {
			done.Trimmed, err = x.trim(ctx, c, to.Text, old)
		}
		switch {
		case err == nil && !loaded:
			continue
		case err != nil:
			err = fmt.Errorf("maintain destination %s: %w", to.Text, err)
			done.Error = x.Redactor.Redact(err.Error())
			errs = append(errs, err)
		}
		all = append(all, done)
	}
	return all, errors.Join(errs...)
}

// isLoaded reports whether something was loaded into a destination from the source.
func (x *Executor) isLoaded(c *config.Config, name, source string) (bool, error) {
	d, _ := c.Destination(name)
	kind, err := x.Open.Kind(c, d)
	return err == nil && (kind.Absent == nil || kind.Absent(d.For(source)) == nil), err
}

// trim removes old rows from a destination.
func (x *Executor) trim(ctx context.Context, c *config.Config, name string, old load.Retention) (n load.Trimmed, err error) {
	if old.Before.IsZero() {
		return n, nil
	}
	d, _ := c.Destination(name)
	dest, err := x.Open.Part(ctx, c, d, old.Source)
	if err != nil {
		return n, err
	}
	if able, ok := open.Whole(dest).(load.Trimmer); ok {
		n, err = able.Trim(ctx, old)
	}
	return n, errors.Join(err, dest.Close())
}
