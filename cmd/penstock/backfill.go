package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

func backfillCmd(a *app) *cobra.Command {
	var from, to string
	var again bool
	var f syncFlags
	cmd := &cobra.Command{
		Use:   "backfill [PIPELINE]",
		Short: "read all past records, or those of a range of time; can be resumed",
		Long: `Reads all past records, or those of a range of time. Without a range, every stream is read
whole. With a range, only records whose last change is in the range are read. If a list
is read month by month, the months that overlap the range are read. Streams that cannot be
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
			for _, name := range []string{"from", "to"} { // an empty variable of a script must not start a backfill of everything
				if flag := cmd.Flags().Lookup(name); flag.Changed && flag.Value.String() == "" {
					return failure.Usage("leave the flag out to read without this bound", "--%s is empty: want a date such as 2025-01-31", name)
				}
			}
			b, err := rangeOf(from, to, time.Now())
			if err != nil {
				return err
			}
			b.StartOver = again
			f.options.Backfill = &b
			return a.sync(cmd.Context(), args, f)
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
