package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/execute"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/history"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/cmd/internal/setup"
)

// initFlags has the flags of init. No flag takes a secret, because every user of a machine can see the command lines
// of all processes.
// Invariant 5
type initFlags struct {
	setup.Setup
	force, noCheck, yes, fromEnv bool
}

func initCmd(a *app) *cobra.Command {
	var f initFlags
	cmd := &cobra.Command{
		Use:   "init",
		Short: "write a commented pipelines.yaml, from a few questions or from flags",
		Long: `Asks a few questions and writes a commented pipelines.yaml. A question whose flag
is set is skipped. Each answer is checked at once, as ` + "`penstock check`" + ` does: addresses,
credentials, destinations. An answer that does not work can be changed. Then init
reads the first page of each list, and prints how many streams and rows the source
has, and which lists the credentials may not read. At the end it can run the first sync.

Without a terminal, or with --yes, there are no questions: missing answers have their
defaults. --from-env takes the addresses from PENSTOCK_V2_URL and PENSTOCK_APP_URL, and
the destination from ` + setup.DatabaseVariable + ` if it is set.

The file contains no secret, only the names of environment variables:
` + setup.KeyVariable + `, ` + setup.TokenVariable + `, and ` + setup.DatabaseVariable + ` for a database URL
with a password. If you agree, typed secrets are stored in the file .env, which
only you can read.`,
		Example: `  penstock init
  ` + setup.KeyVariable + `=… penstock init --v2-url https://api.example.com --to duckdb:warehouse.duckdb
  penstock init --from-env --yes
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
	fl.BoolVarP(&f.yes, "yes", "y", false, "ask no questions, also on a terminal")
	fl.BoolVar(&f.fromEnv, "from-env", false, "take addresses and destination from the environment or .env")
	return cmd
}

// writeSetup collects the answers, checks them, and writes the configuration.
func writeSetup(ctx context.Context, a *app, f initFlags) error {
	if _, err := os.Lstat(a.open.File); err == nil && !f.force {
		return failure.Usage("`penstock check` tests it; --force replaces it", "%s already exists", a.open.File)
	}
	s := f.Setup
	s.Typed, s.Env, s.State, s.DefaultTo = map[string]string{}, open.Environment(a.open.File), setup.DefaultState(a.open.File), defaultDestination()
	if err := s.Refuse(); err != nil {
		return err
	}
	if f.fromEnv {
		if err := s.FromEnvironment(); err != nil {
			return err
		}
	}
	found := a.found
	if f.noCheck {
		found = nil
	}
	var p *setup.Prompt
	if !f.yes {
		p = setup.NewPrompt(a.err)
	}
	var err error
	if p != nil {
		err = setup.Ask(ctx, &a.open, p, &s, found)
	} else {
		err = takeFlags(ctx, a, &s, found)
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
	return finishInit(ctx, a, p, s, f.noCheck)
}

// takeFlags adds the defaults to the flags and checks the result. It is used if there are no questions. If found is nil,
// nothing is checked.
func takeFlags(ctx context.Context, a *app, s *setup.Setup, found func(context.Context, *config.Config) ([]string, error)) error {
	if s.V2URL == "" && s.AppURL == "" {
		return failure.Usage("set --v2-url https://…, --app-url https://… or both", "no workspace given, and no terminal to ask for one")
	}
	s.Fill()
	c, err := setup.Parse(&a.open, *s)
	if err != nil {
		return err
	}
	if found == nil {
		return nil
	}
	if lacking := s.Lacking(); len(lacking) > 0 {
		return failure.Usage("set it, or pass --no-check", "%s is not set, so the connections cannot be checked", strings.Join(lacking, ", "))
	}
	if err := runChecks(ctx, a, c, c.Pipelines); err != nil {
		fmt.Fprintf(a.err, "penstock: %s was not written; --no-check writes it without the checks\n", a.open.File)
		return err
	}
	lines, err := found(ctx, c)
	if a.json {
		return err
	}
	for _, line := range lines {
		if err := a.say("%s\n", line); err != nil {
			return err
		}
	}
	return err
}

// found requests the first page of each list. It returns lines that say how many streams and rows the source has, and
// which lists the credentials may not read.
func (a *app) found(ctx context.Context, c *config.Config) ([]string, error) {
	r, err := a.open.Pipeline(ctx, c, c.Pipelines[0], nil, true)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	sizes, err := execute.Look(ctx, r, &a.open, history.PastRuns{})
	if err != nil {
		return nil, err
	}
	return render.Found(execute.Forecast(r, history.PastRuns{}, sizes, 0), sizes.Refused, sizes.Failed-len(sizes.Refused), sizes.Trouble), nil
}

// finishInit offers to store typed secrets and to run the first sync, and prints the next steps.
func finishInit(ctx context.Context, a *app, p *setup.Prompt, s setup.Setup, noCheck bool) error {
	if err := a.say("wrote %s\n", a.open.File); err != nil {
		return err
	}
	stored, err := setup.StoreTyped(ctx, a.open.File, p, s)
	if err != nil {
		return err
	}
	next := stored.Change
	if len(stored.Unset) > 0 {
		next = append(next, "export "+strings.Join(stored.Unset, "=… ")+"=…")
	}
	works := len(next) == 0 // each variable has the value that was checked
	with := ""
	if a.open.File != defaultConfig {
		with = " -c " + render.ShellWord(a.open.File)
	}
	for _, verb := range []string{"check", "plan", "sync"} {
		next = append(next, "penstock "+verb+with)
	}
	if a.json {
		return render.NewEncoder(a.out).Encode(map[string]any{"config": a.open.File, "env": stored.Path, "next": next})
	}
	if stored.Path != "" {
		if err := a.say("wrote %s; keep it out of version control\n", stored.Path); err != nil {
			return err
		}
	}
	if p != nil && works && !noCheck {
		now, err := p.Yes(ctx, "run the first sync now?")
		if err != nil {
			return err
		}
		if now {
			return a.sync(ctx, nil, syncFlags{})
		}
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
