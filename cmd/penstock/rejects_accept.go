package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/rejects"
	"github.com/penstock-data/penstock/cmd/internal/render"
)

func rejectsAcceptCmd(a *app) *cobra.Command {
	return overRejects(a, &cobra.Command{
		Use:   "accept [PIPELINE]",
		Short: "accept that rejected records are not in the tables",
		Long: `Marks each open reject as accepted. A stream whose rejects are all accepted counts as
complete. A record that is rejected later, or for another reason, must be accepted again.
Nothing is deleted, and no request is sent to the source.

Exit codes: 0 all rejects are accepted, 75 some rejects are left, 1 a destination failed.`,
		Example: `  penstock rejects accept
  penstock rejects accept --stream crm.leads`,
	}, func(ctx context.Context, c pipeline.Config) error {
		r, err := rejects.Accept(ctx, c)
		if err != nil {
			return fmt.Errorf("accept rejects of %s: %w", c.Name, err)
		}
		return concludeAccept(a, r)
	})
}

// concludeAccept prints what was accepted, and returns the exit code of the command.
func concludeAccept(a *app, r rejects.AcceptReport) error {
	if a.json {
		if err := render.NewEncoder(a.out).Encode(rejectsJSON[rejects.Accepted]{r.Run, r.ExitCode(), append([]rejects.Accepted{}, r.Streams...)}); err != nil {
			return err
		}
		return failure.Exit(r.ExitCode())
	}
	if len(r.Streams) == 0 {
		fmt.Fprintln(a.out, "nothing to accept")
		return failure.Exit(r.ExitCode())
	}
	g := render.NewTable("stream", "destination", "#records", "#values", "#left")
	for _, s := range r.Streams {
		g.Add(s.Stream, s.Destination, s.Records, s.Values, s.Left)
	}
	g.Render(a.out)
	for _, s := range r.Streams {
		failedRejects(a, s.Stream, s.Destination, s.Error)
	}
	return failure.Exit(r.ExitCode())
}
