package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/cmd/internal/setup"
)

// initFlags has the flags of init. No flag takes a secret, because every user of a machine can see the command lines
// of all processes.
// Invariant 5
type initFlags struct {
	setup.Setup
	force, noCheck bool
}

func initCmd(a *app) *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use:   "init",
		Short: "write a commented pipelines.yaml, from a few questions or from flags",
		Long: `Asks a few questions and writes a commented pipelines.yaml. A question whose flag
is set is skipped, and without a terminal there are no questions. Each answer is checked
at once, as ` + "`penstock check`" + ` does: addresses, credentials, destinations.

The file contains no secret, only the names of environment variables:
` + setup.KeyVariable + `, ` + setup.TokenVariable + `, and ` + setup.DatabaseVariable + ` for a database URL
with a password. If you agree, typed secrets are stored in the file .env, which
only you can read.`,
		Example: `  penstock init
  ` + setup.KeyVariable + `=… penstock init --v2-url https://api.example.com --to duckdb:warehouse.duckdb
  penstock init --app-url http://127.0.0.1:8787 --to 'parquet:lake' --streams 'crm.*' --schedule '0 2 * * *'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return writeSetup(cmd.Context(), a, f) },
	}
	fl := cmd.Flags()
	fl.StringVar(&f.V2URL, "v2-url", "", "`address` of the versioned surface, without /v2")
	fl.StringVar(&f.AppURL, "app-url", "", "`address` of the application surface, without /api")
	fl.StringVar(&f.Plan, "plan", "", "`plan` of the workspace: free, pro, business or agency (default pro)")
	fl.StringArrayVar(&f.To, "to", nil, "`URL` of a destination (default "+defaultDestination()+"); may be repeated")
	fl.StringSliceVar(&f.Streams, "streams", nil, "`patterns` of the streams to load (default *)")
	fl.StringVar(&f.Cron, "schedule", "", "when to run, as a `cron` expression such as '0 2 * * *'")
	fl.StringVar(&f.Zone, "zone", "", "time `zone` of the schedule, such as Europe/Berlin (default UTC)")
	fl.BoolVar(&f.force, "force", false, "replace the file if it exists")
	fl.BoolVar(&f.noCheck, "no-check", false, "skip the connection checks")
	return cmd
}

// writeSetup collects the answers, checks them, and writes the configuration.
func writeSetup(ctx context.Context, a *app, f initFlags) error {
	if _, err := os.Lstat(a.open.File); err == nil && !f.force {
		return failure.Usage("`penstock check` tests it; --force replaces it", "%s already exists", a.open.File)
	}
	s := f.Setup
	s.Typed, s.State, s.DefaultTo = map[string]string{}, setup.DefaultState(a.open.File), defaultDestination()
	if err := s.Refuse(); err != nil {
		return err
	}
	p := setup.NewPrompt(a.err)
	var err error
	if p != nil {
		err = setup.Ask(ctx, &a.open, p, &s, f.noCheck)
	} else {
		err = takeFlags(ctx, a, &s, f.noCheck)
	}
	if err != nil {
		return err
	}
	text, err := s.Render()
	if err != nil {
		return err
	}
	if err := writeConfig(a.open.File, text, f.force); err != nil {
		return err
	}
	return finishInit(ctx, a, p, s)
}

// takeFlags adds the defaults to the flags and checks the result. It is used if there is no terminal for questions.
func takeFlags(ctx context.Context, a *app, s *setup.Setup, noCheck bool) error {
	if s.V2URL == "" && s.AppURL == "" {
		return failure.Usage("set --v2-url https://…, --app-url https://… or both", "no workspace given, and no terminal to ask for one")
	}
	s.Fill()
	c, err := setup.Parse(&a.open, *s)
	if err != nil {
		return err
	}
	if noCheck {
		return nil
	}
	if lacking := s.Lacking(); len(lacking) > 0 {
		return failure.Usage("set it, or pass --no-check", "%s is not set, so the connections cannot be checked", strings.Join(lacking, ", "))
	}
	if err := runChecks(ctx, a, c, c.Pipelines); err != nil {
		fmt.Fprintf(a.err, "penstock: %s was not written; --no-check writes it without the checks\n", a.open.File)
		return err
	}
	return nil
}

// finishInit offers to store typed secrets, and prints the next steps.
func finishInit(ctx context.Context, a *app, p *setup.Prompt, s setup.Setup) error {
	if err := a.say("wrote %s\n", a.open.File); err != nil {
		return err
	}
	env, err := setup.StoreTyped(ctx, a.open.File, p, s)
	if err != nil {
		return err
	}
	var next []string
	switch {
	case env != "":
		if !filepath.IsAbs(env) {
			env = "./" + env // without a folder, a shell would search for the file in PATH
		}
		next = append(next, "set -a; . "+setup.ShellWord(env)+"; set +a   # in each shell; keep the file out of version control")
	case len(s.Typed) > 0 || len(s.Lacking()) > 0:
		next = append(next, "export "+strings.Join(s.Variables(), "=… ")+"=…")
	}
	with := ""
	if a.open.File != defaultConfig {
		with = " -c " + setup.ShellWord(a.open.File)
	}
	for _, verb := range []string{"check", "plan", "sync"} {
		next = append(next, "penstock "+verb+with)
	}
	if a.json {
		return render.NewEncoder(a.out).Encode(map[string]any{"config": a.open.File, "env": env, "next": next})
	}
	for _, line := range next {
		if err := a.say("next: %s\n", line); err != nil {
			return err
		}
	}
	return nil
}

// writeConfig writes the configuration. It replaces an existing file only if the argument `force` is true. The
// replacement is atomic.
func writeConfig(path string, text []byte, force bool) error {
	if _, err := os.Stat(path); !force || errors.Is(err, fs.ErrNotExist) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			return failure.Usage("--force replaces it", "%s already exists", path)
		}
		if err != nil {
			return failure.Usage("", "write configuration: %w", err)
		}
		_, err = f.Write(text)
		return errors.Join(err, f.Close())
	}
	if err := replaceFile(path, text); err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	return nil
}

// defaultDestination returns the URL of a DuckDB file, or of an SQLite file if this build lacks DuckDB.
func defaultDestination() string {
	if duckdbKind().Missing != "" {
		return "sqlite:warehouse.db"
	}
	return "duckdb:warehouse.duckdb"
}
