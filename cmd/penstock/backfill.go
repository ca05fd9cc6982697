package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/schemas"
)

func (a *app) backfillCmd() *cobra.Command {
	var from, to string
	var again bool
	var f syncFlags
	cmd := &cobra.Command{
		Use:   "backfill [PIPELINE]",
		Short: "a full or ranged historical pass, resumable",
		Long: `A full or ranged historical pass. Without a range every stream is read whole;
with one, what was last changed in it, and of lists by months those that it
touches. It has a place of its own: the scheduled runs go on as if it had not
been. What was stopped is carried on by the same command, and what was done is
done again only with --again. A backfill deletes nothing.

Dates are in UTC. What lies at --to or later is left out; without it, where it is
yet to come, or of a source that takes no end, the range goes on to the present.`,
		Example: `  penstock backfill nightly --stream crm.deals --from 2025-01-01 --to 2025-07-01
  penstock backfill --stream 'sales.*'`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			b, err := rangeOf(from, to, time.Now())
			if err != nil {
				return err
			}
			b.Again = again
			f.options.Backfill = &b
			c, p, err := a.carry(args)
			if err != nil {
				return err
			}
			if p.Many {
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
	fl.StringArrayVar(&f.streams, "stream", nil, "only these streams: a `pattern` as in pipelines.yaml; may be repeated")
	fl.StringArrayVar(&f.sources, "source", nil, "of a pipeline over several, only these sources: a `pattern`; may be repeated")
	fl.StringVar(&from, "from", "", "the beginning of the range: a `date`, 2025-01-31, or a moment, 2025-01-31T10:00:00Z")
	fl.StringVar(&to, "to", "", "its end, which is no part of it: a `date` or a moment")
	fl.BoolVar(&again, "again", false, "from the beginning, though it was begun or done before")
	return cmd
}

// rangeOf reads the bounds of a range. now is the end of all that was.
func rangeOf(from, to string, now time.Time) (b pipeline.Backfill, err error) {
	if b.From, err = momentOf("--from", from); err != nil {
		return b, err
	}
	if b.Until, err = momentOf("--to", to); err != nil {
		return b, err
	}
	switch {
	case from == "" && to != "":
		return b, usage("", "--to needs --from: a range has a beginning")
	case b.From.After(now):
		return b, usage("", "--from %s is yet to come", from)
	case to != "" && !b.From.Before(b.Until):
		return b, usage("", "--from %s is not before --to %s", from, to)
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
	return time.Time{}, usage("", "%s %q: want a date, 2025-01-31, or a moment, 2025-01-31T10:00:00Z", flag, text)
}

// maxLeftOut is how many streams are named that are left out.
const maxLeftOut = 4

// narrow leaves out of a ranged backfill the streams of which no range can be
// asked for. Those that the command line names by their names have to be.
func (a *app) narrow(ctx context.Context, r *openedRun, named []string) error {
	known := r.conventions(ctx)
	var left []string
	r.streams = slices.DeleteFunc(slices.Clone(r.streams), func(s config.Stream) bool {
		out := !canRange(s, known)
		if out {
			left = append(left, s.Name)
		}
		return out
	})
	for _, name := range left {
		if slices.Contains(named, name) {
			return usage(hintRange(name), "no range of %s can be asked for: it has no filter by the time of the last change, and no months", name)
		}
	}
	if len(r.streams) == 0 {
		return usage(hintRange(""), "no range of any of %s can be asked for", plural(len(left), "stream"))
	}
	if len(left) > 0 {
		names := strings.Join(left[:min(len(left), maxLeftOut)], ", ")
		if len(left) > maxLeftOut {
			names += ", …"
		}
		a.log.Info("left out, as no range of them can be asked for; without --from they are read whole", "streams", len(left), "named", names)
	}
	return nil
}

// conventions are what a destination remembers of the streams.
func (r *openedRun) conventions(ctx context.Context) map[string]pipeline.Memory {
	for _, d := range r.dests {
		if all, err := pipeline.Recall(ctx, d, r.pipeline.Name); err == nil {
			return all
		}
	}
	return nil
}

// canRange reports whether a range of s may be asked for: as far as is known now,
// where probes are to find that out.
func canRange(s config.Stream, known map[string]pipeline.Memory) bool {
	if s.Table.Mode == schemas.Replace || s.Parent != "" {
		return false
	}
	m, found := known[s.Name]
	return m.Apply(s.Stream).Ranged() || s.Incremental.Auto && !(found && m.Fits(s.Stream))
}

// hintRange is what makes a range of a stream possible.
func hintRange(stream string) string {
	if stream == "" {
		stream = "NAME"
	}
	return "say how under streams: `" + stream + ": {incremental: {field: updated_at, param: updated_since, until: updated_before}}`, or `incremental: auto`; " +
		"without --from every stream is read whole"
}

// printDone tells of what was backfilled before.
func printDone(w io.Writer, streams []pipeline.StreamReport) {
	n := 0
	for _, s := range streams {
		if s.Done.IsZero() {
			continue
		}
		if n++; n > maxProblems {
			continue
		}
		name := s.Called()
		if severalDestinations(streams) {
			name += " → " + s.Destination
		}
		fmt.Fprintf(w, "%s was done on %s; --again does it again\n", name, s.Done.Local().Format(time.DateTime))
	}
	if n > maxProblems {
		fmt.Fprintf(w, "and %s more\n", plural(n-maxProblems, "stream"))
	}
}
