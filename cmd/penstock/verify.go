package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/cmd/internal/verify"
)

// verifyFlags are the flags of verify.
type verifyFlags struct {
	streams []string
	options verify.Options
}

func verifyCmd(a *app) *cobra.Command {
	var f verifyFlags
	var source string
	cmd := &cobra.Command{
		Use:   "verify [PIPELINE]",
		Short: "read the source again and compare it with each destination, row by row",
		Long: `Reads the source again and compares it with each destination: keys and hashes,
row by row, child tables included. It writes nothing. Changes at the source since the
last run count as differences.

Exit codes: 0 everything is equal, 1 something is different, 75 no difference was
found but not everything could be compared.`,
		Example: `  penstock verify
  penstock verify nightly --stream 'sales.*' --requests 200`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.options.Requests < 0 || f.options.Keys < 1 {
				return failure.Usage("", "--requests cannot be negative, and --rows must be at least 1")
			}
			c, p, err := a.open.LoadOneSource(args, source)
			if err != nil {
				return err
			}
			r, err := verifyPipeline(cmd.Context(), a, c, p, f)
			if err != nil {
				return err
			}
			if a.json {
				err = render.NewEncoder(a.out).Encode(render.VerifyJSON(r, a.open.File))
			} else {
				err = render.Verified(a.out, r, a.open.File)
			}
			if err != nil {
				return err
			}
			return failure.Exit(r.ExitCode())
		},
	}
	fl := cmd.Flags()
	fl.StringArrayVar(&f.streams, "stream", nil, "only streams that match a `pattern` as in pipelines.yaml; may be repeated")
	addSourceFlag(cmd, &source)
	fl.IntVar(&f.options.Requests, "requests", 0, "total `budget` of requests for all streams; 0 means as many as needed")
	fl.IntVarP(&f.options.Keys, "rows", "n", 20, "`number` of differences to list per stream and destination")
	return cmd
}

// verifyPipeline compares the records of a pipeline's streams with the rows in its destinations.
func verifyPipeline(ctx context.Context, a *app, c *config.Config, p config.Pipeline, f verifyFlags) (verify.Report, error) {
	var none verify.Report
	r, err := a.open.Pipeline(ctx, c, p, f.streams, false)
	if err != nil {
		return none, err
	}
	defer r.Close()
	report, err := verify.Run(ctx, r.Config(), f.options)
	if err != nil {
		return none, fmt.Errorf("verify %s: %w", p.Name, err)
	}
	return report, nil
}
