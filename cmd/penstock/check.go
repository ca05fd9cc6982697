package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/check"
	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/daemon"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
)

func checkCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check [PIPELINE]",
		Short: "check configuration, credentials, connections and rights",
		Long: `Checks the configuration, the credentials, the connections, and the rights in each
destination. It makes one cheap read per surface. For each problem it prints what is
wrong, where, and what to do. No table is changed.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.open.Load()
			if err != nil {
				return err
			}
			pipelines, err := open.PickPipelines(c, args)
			if err != nil {
				return err
			}
			return runChecks(cmd.Context(), a, c, pipelines)
		},
	}
}

// runChecks runs every check, even if some fail, and prints the findings.
func runChecks(ctx context.Context, a *app, c *config.Config, pipelines []config.Pipeline) error {
	findings := []check.Finding{{Part: "configuration", OK: true, Detail: c.File + ", " + render.Plural(len(c.Pipelines), "pipeline")}}
	findings = append(findings, check.State(ctx, &a.open, c)...)
	findings = append(findings, daemon.CheckAlerts(c)...)
	findings = append(findings, daemon.CheckTLS(ctx, c)...)
	now := a.open.State(c).Now()
	sources, dests := map[string]bool{}, map[string]bool{}
	for _, p := range pipelines {
		findings = append(findings, check.Pipeline(&a.open, c, p, now))
		findings = append(findings, check.Commands(ctx, &a.open, p)...)
		for _, from := range p.From {
			if !sources[from.Text] {
				sources[from.Text] = true
				findings = append(findings, check.Source(ctx, &a.open, c, p, from)...)
				findings = append(findings, daemon.CheckWebhooks(ctx, &a.open, c, from.Text, now)...)
			}
		}
		for _, to := range p.To {
			if !dests[to.Text] {
				dests[to.Text] = true
				d, _ := c.Destination(to.Text)
				findings = append(findings, check.Destination(ctx, &a.open, c, d)...)
			}
		}
	}
	return printFindings(a, check.Once(findings))
}

func printFindings(a *app, findings []check.Finding) error {
	code := failure.ExitDone
	for _, f := range findings {
		if !f.OK && (code == failure.ExitDone || f.Code == failure.ExitUsage) {
			code = f.Code
		}
		if a.json {
			f.Hint = render.Suggest(f.Hint, a.open.File)
			if err := render.NewEncoder(a.out).Encode(f); err != nil {
				return err
			}
			continue
		}
		mark := "ok  "
		if !f.OK {
			mark = "FAIL"
		}
		fmt.Fprintf(a.out, "%s  %-24s %s\n", render.Tone(a.out, mark), f.Part, render.Printable(render.Suggest(f.Detail, a.open.File), false))
		if f.Hint != "" {
			_ = render.Hint(a.out, "      ", f.Hint, a.open.File)
		}
	}
	return failure.Exit(code)
}
