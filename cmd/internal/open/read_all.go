package open

import (
	"context"

	"github.com/penstock-data/penstock/cmd/internal/config"
)

// ReadAll is like Read, for verbs that can show several destinations together. If the selection names no destination, it
// opens all of them, one after the other. If a destination has a part for each source, and the selection names no source,
// it opens the parts of all sources. Destinations and parts that cannot be opened, for example because nothing was loaded
// yet, are left out and logged. ReadAll returns an error if none can be opened, or if the function use returns one.
func (o *Opener) ReadAll(ctx context.Context, q Selection, use func(*Reader) error) error {
	c, err := o.LoadDestinations()
	if err != nil {
		return err
	}
	chosen := c.Destinations
	if d, source, err := q.find(c); err == nil {
		return o.readPart(ctx, c, d.For(source), source, use)
	} else if q.Source != "" || q.To != "" {
		d, known := c.Destination(q.To)
		if !known || !d.PerSource() || q.Source != "" {
			return err
		}
		chosen = []config.Destination{d}
	}
	var used error // of the function use
	var errs []error
	opened := 0
	for _, d := range chosen {
		parts := []string{""}
		if d.PerSource() {
			parts = c.SourcesOf(d)
		}
		for _, part := range parts {
			err := o.readPart(ctx, c, d.For(part), part, func(r *Reader) error {
				opened++
				used = use(r)
				return used
			})
			switch {
			case used != nil || ctx.Err() != nil:
				return err
			case err != nil:
				o.Log.Debug("destination left out", "destination", d.Name, "source", part, "error", err)
				errs = append(errs, err)
			}
		}
	}
	switch {
	case opened > 0:
		return nil
	case len(errs) > 0:
		return errs[0]
	}
	_, _, err = q.find(c) // says what to select
	return err
}
