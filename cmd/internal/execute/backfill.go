package execute

import (
	"context"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/schemas"
)

// maxLeftOut is the largest number of skipped streams that a message names.
const maxLeftOut = 4

// skipUnranged removes from r the streams that cannot be read by range. It is called for a backfill with a
// range. It returns an error if the command line names such a stream, or if no stream remains.
func (x *Executor) skipUnranged(ctx context.Context, r *open.Run, named []string) error {
	known := storedConventions(ctx, r)
	var left []string
	r.Streams = slices.DeleteFunc(slices.Clone(r.Streams), func(s config.Stream) bool {
		out := !canRange(s, known)
		if out {
			left = append(left, s.Name)
		}
		return out
	})
	for _, name := range left {
		if slices.Contains(named, name) {
			return failure.Usage(render.HintRange(name), "%s cannot be read by range: a range needs a stream without a parent, in a mode other than replace, with a filter by time of last change or a list by months", name)
		}
	}
	if len(r.Streams) == 0 {
		return failure.Usage(render.HintRange(""), "none of %s can be read by range", render.Plural(len(left), "stream"))
	}
	if len(left) > 0 {
		names := strings.Join(left[:min(len(left), maxLeftOut)], ", ")
		if len(left) > maxLeftOut {
			names += ", …"
		}
		x.Open.Log.Info("streams skipped: they cannot be read by range; a backfill without --from reads them whole", "streams", len(left), "named", names)
	}
	return nil
}

// storedConventions returns the stored conventions of the streams. It reads them from the first destination that
// responds. It returns nil if no destination responds.
func storedConventions(ctx context.Context, r *open.Run) map[string]pipeline.Memory {
	for _, d := range r.Destinations {
		if all, err := pipeline.Recall(ctx, d, r.Pipeline.Name); err == nil {
			return all
		}
	}
	return nil
}

// canRange reports whether s can be read by range. A child stream, or a stream in the mode `replace`, cannot be read by
// range. With `incremental: auto`, a probe finds out whether there is a filter. Before the probe, canRange returns
// true.
func canRange(s config.Stream, known map[string]pipeline.Memory) bool {
	if s.Table.Mode == schemas.Replace || s.Parent != "" {
		return false
	}
	m, found := known[s.Name]
	return m.Apply(s.Stream).Ranged() || s.Incremental.Auto && !(found && m.Fits(s.Stream))
}
