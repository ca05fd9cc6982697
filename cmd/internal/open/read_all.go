package open

import (
	"cmp"
	"context"

	"github.com/penstock-data/penstock/cmd/internal/config"
)

// ReadAll is like Read, for commands that can show several destinations together. If the selection names no
// destination, it opens all of them, one after the other. If a destination has a part for each source, and the
// selection names no source, it opens the parts of all sources. It leaves out destinations and parts into which nothing
// was loaded yet. If nothing was loaded into any of them, it returns an error for which [IsAbsent] returns true. If a
// destination or part cannot be read, ReadAll logs a warning, reads the others, and then returns the first error. In
// this way the caller can show the others before it fails.
func (o *Opener) ReadAll(ctx context.Context, q Selection, use func(*Reader) error) error {
	c, err := o.LoadDestinations()
	if err != nil {
		return err
	}
	chosen := c.Destinations
	if d, source, err := q.find(c); err == nil {
		return o.readPart(ctx, c, q.place(d.For(source)), source, use)
	} else if q.Source != "" || q.To != "" {
		d, known := c.Destination(q.To)
		if !known || !d.PerSource() || q.Source != "" {
			return err
		}
		chosen = []config.Destination{d}
	}
	var absent, broken error // the first error of each kind
	opened := 0
	for _, d := range chosen {
		parts := []string{""}
		if d.PerSource() {
			parts = c.SourcesOf(d)
		}
		var failed []string // parts that cannot be read
		var first error
		for _, part := range parts {
			err := o.readPart(ctx, c, q.place(d.For(part)), part, func(r *Reader) error {
				opened++
				return use(r)
			})
			switch {
			case err == nil:
			case ctx.Err() != nil:
				return err
			case IsAbsent(err):
				o.Log.Debug("destination left out, because nothing was loaded into it", "destination", d.Name, "source", part, "error", err)
				absent = cmp.Or(absent, err)
			default:
				failed, first = append(failed, part), cmp.Or(first, err)
			}
		}
		if first != nil {
			o.Log.Warn("cannot read destination; the rest is shown", "destination", d.Name, "parts", len(failed), "source", failed[0], "error", first)
			broken = cmp.Or(broken, first)
		}
	}
	switch {
	case broken != nil:
		return broken
	case opened > 0:
		return nil
	case absent != nil:
		return absent
	}
	_, _, err = q.find(c) // says what to select
	return err
}
