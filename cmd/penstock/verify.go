package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// verifyFlags are the flags of verify.
type verifyFlags struct {
	streams []string
	options pipeline.VerifyOptions
}

func (a *app) verifyCmd() *cobra.Command {
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
			c, p, err := a.loadOneSource(args, source)
			if err != nil {
				return err
			}
			r, err := a.verify(cmd.Context(), c, p, f)
			if err != nil {
				return err
			}
			if err := a.printVerified(r); err != nil {
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

// verify compares a pipeline's streams with what its destinations have.
func (a *app) verify(ctx context.Context, c *config.Config, p config.Pipeline, f verifyFlags) (pipeline.VerifyReport, error) {
	var none pipeline.VerifyReport
	r, err := a.openRun(ctx, c, p, f.streams, false)
	if err != nil {
		return none, err
	}
	defer r.close(a)
	report, err := pipeline.Verify(ctx, r.config(), f.options)
	if err != nil {
		return none, fmt.Errorf("verify %s: %w", p.Name, err)
	}
	return report, nil
}

// printVerified prints the outcome per stream, and the differences.
func (a *app) printVerified(r pipeline.VerifyReport) error {
	if a.json {
		return lineWriter(a.out).Encode(verifyJSONOf(r))
	}
	count := map[pipeline.Agreement]int{}
	g := newGrid("stream", "destination", "agreement", "#records", "#rows", "#missing", "#extra", "#differs", "#filtered", "#rejected")
	for _, s := range r.Streams {
		count[s.Agreement]++
		g.add(s.Stream, s.Destination, string(s.Agreement), s.Records, s.Rows, s.Missing, s.Extra, s.Differing, s.Filtered, s.Rejected)
	}
	g.render(a.out)
	for _, s := range r.Streams {
		a.printDifferences(s)
	}
	_, err := fmt.Fprintf(a.out, "\n%s: %d equal, %d different, %d unchecked; %s requests in %s\n", r.Pipeline,
		count[pipeline.Equal], count[pipeline.Different], count[pipeline.Unchecked], grouped(int64(r.Requests)), brief(r.Ended.Sub(r.Started).Round(time.Millisecond)))
	return err
}

// printDifferences lists the differing rows of a stream, or why it was not compared.
func (a *app) printDifferences(s pipeline.Verified) {
	if s.Err != nil {
		fmt.Fprintf(a.out, "\n%s → %s was not compared: %s\n", s.Stream, s.Destination, printable(s.Err.Error(), false))
		if h := remedyFor(s.Err, s.Stream); h != "" {
			_ = printHint(a.out, "  ", h)
		}
		return
	}
	if len(s.List) == 0 {
		return
	}
	fmt.Fprintf(a.out, "\n%s → %s\n", s.Stream, s.Destination)
	for _, d := range s.List {
		fmt.Fprintf(a.out, "  %-8s %s %s\n", d.Kind, d.Table, printable(d.Key, false))
	}
	if n := s.Missing + s.Extra + s.Differing - int64(len(s.List)); n > 0 {
		fmt.Fprintf(a.out, "  and %s more\n", grouped(n))
	}
}

// verifyJSON is what `verify --json` prints.
type verifyJSON struct {
	pipeline.VerifyReport
	ExitCode int            `json:"exit_code"`
	Streams  []verifiedJSON `json:"streams"`
}

type verifiedJSON struct {
	pipeline.Verified
	Error string `json:"error,omitempty"`
	Hint  string `json:"hint,omitempty"`
}

func verifyJSONOf(r pipeline.VerifyReport) verifyJSON {
	out := verifyJSON{VerifyReport: r, ExitCode: r.ExitCode(), Streams: []verifiedJSON{}}
	for _, s := range r.Streams {
		v := verifiedJSON{Verified: s, Hint: remedyFor(s.Err, s.Stream)}
		if s.Err != nil {
			v.Error = s.Err.Error()
		}
		out.Streams = append(out.Streams, v)
	}
	return out
}
