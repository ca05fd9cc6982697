package open

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Checkable returns a fault if a destination of the pipeline cannot run a check of one of the streams, or cannot hold
// rows back. Without it, a run would silently leave out a check that a person relies on.
func (o *Opener) Checkable(c *config.Config, p config.Pipeline, streams []config.Stream) error {
	for _, to := range p.To {
		d, _ := c.Destination(to.Text)
		kind, err := o.Kinds.Of(c, d)
		if err != nil {
			return err
		}
		for _, s := range streams {
			for _, check := range s.Checks {
				what := fmt.Sprintf("stream %s: check %s: destination %s ", s.Name, check.Name, d.Name)
				switch {
				case kind.NoChecks != "":
					return c.Fault(check.At, what+"cannot run checks: "+kind.NoChecks)
				case check.Hold && kind.NoHold != "":
					return c.Fault(check.At, what+"cannot hold rows back: "+kind.NoHold+"; use `on_fail: warn`")
				}
			}
		}
	}
	return nil
}

// lakeSQL reads a lake in SQL. It implements [pipeline.SQL].
type lakeSQL struct{ *Reader }

// lakeSQL returns what reads a destination of the run in SQL. It returns nil for a database, which does so itself.
func (r *Run) lakeSQL(to pipeline.Destination) pipeline.SQL {
	source := r.Pipeline.From[0].Text
	d, _ := r.Conf.Destination(to.Name)
	kind, err := r.opener.Kinds.Of(r.Conf, d)
	_, unreached := to.Destination.(unavailable)
	if _, database := Whole(to.Destination).(load.Querier); database || unreached || err != nil || kind.Querier == nil {
		return nil
	}
	return lakeSQL{&Reader{Destination: Whole(to.Destination), Name: d.Name, Config: d.For(source), Kind: kind, Conf: r.Conf, Source: source, Shared: r.Conf.Shared(d)}}
}

// CheckRows implements [load.Checker].
func (l lakeSQL) CheckRows(ctx context.Context, k state.Key, table string, c schemas.Check, now time.Time) (out load.CheckOutcome, there bool, err error) {
	tables, err := l.LoadedTables(ctx)
	if err != nil {
		return out, false, err
	}
	t, there := tables[table]
	if !there {
		return out, false, nil
	}
	if l.Shared {
		k.Source = l.Source
	}
	err = l.Ask(ctx, func(q load.Querier) error {
		by, able := q.(load.TableRowChecker)
		if !able {
			return fmt.Errorf("destination %s cannot check rows", l.Name)
		}
		out, err = by.CheckTable(ctx, k, t, c, now)
		return err
	})
	return out, true, err
}
