package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/schemas"
)

func backfillCmd(a *app) *cobra.Command {
	var from, to string
	var again bool
	var f syncFlags
	cmd := &cobra.Command{
		Use:   "backfill [PIPELINE]",
		Short: "read all of the past, or a range of it; can be resumed",
		Long: `Reads all of the past, or a range of it. Without a range, every stream is read
whole. With a range, only the records last changed in the range are read. A list
by months is read for the months that overlap the range. Streams that cannot be
read by range are skipped. A backfill has its own cursor, so scheduled runs are
not affected. It deletes nothing.

Run the same command again to resume a stopped backfill. Streams that a backfill
has finished are read again only with --again.

Dates are in UTC, and --to is exclusive. The range ends at the present if --to is
missing or in the future, or if the source has no filter for the end.`,
		Example: `  penstock backfill nightly --stream crm.deals --from 2025-01-01 --to 2025-07-01
  penstock backfill --stream 'sales.*'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := rangeOf(from, to, time.Now())
			if err != nil {
				return err
			}
			b.StartOver = again
			f.options.Backfill = &b
			c, p, err := a.open.LoadPipeline(args)
			if err != nil {
				return err
			}
			if p.MultiSource {
				return a.syncAll(cmd.Context(), c, p, f)
			}
			r, err := a.sync(cmd.Context(), c, p, f)
			if err != nil {
				return err
			}
			return a.conclude(r)
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.streams, "stream", nil, "only streams that match a `pattern` as in pipelines.yaml; may be repeated")
	fl.StringArrayVar(&f.sources, "source", nil, "only sources that match a `pattern`, if the pipeline reads several; may be repeated")
	fl.StringVar(&from, "from", "", "start of the range: a `date` such as 2025-01-31, or a time such as 2025-01-31T10:00:00Z")
	fl.StringVar(&to, "to", "", "end of the range, exclusive: a `date` or a time")
	fl.BoolVar(&again, "again", false, "start over, even if this backfill was started or finished before")
	return cmd
}

// rangeOf parses the bounds of a range. If the end is later than now, the range gets no end.
func rangeOf(from, to string, now time.Time) (b pipeline.Backfill, err error) {
	if b.From, err = momentOf("--from", from); err != nil {
		return b, err
	}
	if b.Until, err = momentOf("--to", to); err != nil {
		return b, err
	}
	switch {
	case from == "" && to != "":
		return b, failure.Usage("", "--to needs --from: a range needs a start")
	case b.From.After(now):
		return b, failure.Usage("", "--from %s is in the future", from)
	case to != "" && !b.From.Before(b.Until):
		return b, failure.Usage("", "--from %s is not before --to %s", from, to)
	case b.Until.After(now):
		b.Until = time.Time{}
	}
	return b, nil
}

func momentOf(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, failure.Usage("", "%s %q: want a date such as 2025-01-31, or a time such as 2025-01-31T10:00:00Z", flag, text)
}

// maxLeftOut is the number of skipped streams that a message names at most.
const maxLeftOut = 4

// skipUnranged removes from r the streams that cannot be read by range. It is called for a backfill with a
// range. It returns an error if the command line names such a stream, or if no stream remains.
func skipUnranged(ctx context.Context, a *app, r *open.Run, named []string) error {
	known := storedConventions(r, ctx)
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
			return failure.Usage(render.HintRange(name), "%s cannot be read by range: that needs a filter by time of last change or a list by months, no parent, and a mode other than replace", name)
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
		a.log.Info("streams skipped: they cannot be read by range; without --from they are read whole", "streams", len(left), "named", names)
	}
	return nil
}

// storedConventions returns the stored conventions of the streams. It reads them from the first destination that
// responds. It returns nil if no destination responds.
func storedConventions(r *open.Run, ctx context.Context) map[string]pipeline.Memory {
	for _, d := range r.Destinations {
		if all, err := pipeline.Recall(ctx, d, r.Pipeline.Name); err == nil {
			return all
		}
	}
	return nil
}

// canRange reports whether s can be read by range. Child streams and streams in mode replace cannot. With
// `incremental: auto`, a probe finds out whether there is a filter. Before the probe, canRange returns true.
func canRange(s config.Stream, known map[string]pipeline.Memory) bool {
	if s.Table.Mode == schemas.Replace || s.Parent != "" {
		return false
	}
	m, found := known[s.Name]
	return m.Apply(s.Stream).Ranged() || s.Incremental.Auto && !(found && m.Fits(s.Stream))
}
