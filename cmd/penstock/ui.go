package main

import (
	"context"
	"errors"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/daemon"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/state"
)

func uiCmd(a *app) *cobra.Command {
	var to string
	var noOpen bool
	cmd := &cobra.Command{
		Use:   "ui",
		Short: "show the dashboard and the loaded data in a browser, read-only",
		Long: `Serves the dashboard on a free port of this machine, until it is stopped. It shows
tables, statistics and rows, runs SQL that only reads, and shows runs and certificates.
It changes nothing: it runs no pipeline, and needs no secret of a source.

The command prints a link that works once, for one browser. On a terminal it also opens
the link.

--to names a destination of the configuration. It can also be a URL, such as
duckdb:crm.duckdb or postgres://…. Then no configuration is needed.`,
		Example: `  penstock ui
  penstock ui --to duckdb:crm.duckdb
  penstock ui --to 'postgres://reader@db/warehouse?schema=crm' --no-open`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runUI(cmd.Context(), a, to, !noOpen && isTerminal(a.err))
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "`name` of a destination, or the URL of a destination that needs no configuration")
	cmd.Flags().BoolVar(&noOpen, "no-open", false, "print the link only; open no browser")
	return cmd
}

// runUI serves the dashboard until it is stopped.
func runUI(ctx context.Context, a *app, to string, browser bool) (err error) {
	dir, err := os.MkdirTemp("", "penstock-ui-")
	if err != nil {
		return fmt.Errorf("create a temporary folder: %w", failure.PathCause(err))
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	only := open.Selection{To: to}
	if strings.Contains(to, ":") {
		if a.open.File, err = daemon.ConfigFor(dir, to); err != nil {
			return err
		}
		only = open.Selection{}
	}
	a.open.ReadOnly, a.open.Pool = true, open.NewDestinationPool()
	c, err := a.open.LoadDestinations()
	if faults, ok := errors.AsType[config.Faults](err); ok && only.To != to {
		return failure.Usage("", "--to: %s", faults[0].Message) // the file is temporary, so its name would not help
	}
	if err != nil {
		return err
	}
	if only.To != to {
		for _, d := range c.Destinations {
			k, err := a.open.Kinds.Of(c, d)
			if err != nil || k.Absent == nil {
				continue
			}
			if err := k.Absent(d); err != nil {
				return failure.Usage("correct the URL, or load data with `penstock sync` first", "--to %s: %w", to, err)
			}
		}
	}
	if to != "" && only.To != "" {
		if _, _, _, err := a.open.Named(only); err != nil {
			return err
		}
	}
	journal, err := state.OpenJournal(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	u, err := daemon.OpenUI(c, daemon.UIConfig{Opener: &a.open, Only: only, Journal: journal, Version: versionNow().Version})
	if err != nil {
		return err
	}
	link := u.Link()
	fmt.Fprintf(a.out, "%s\n", link)
	a.log.Info("the link works once; stop with Ctrl-C")
	if browser { // a browser in a container may not see the file, so the link is printed in any case
		if err := openPrivately(ctx, dir, link); err != nil {
			a.log.Warn("cannot open a browser; open the link yourself", "error", err)
		}
	}
	if err := u.Run(ctx); err != nil {
		return err
	}
	return stoppedBy(ctx)
}

// openPrivately opens a link in a browser. The link is in a file that only this user can read: all users of the machine
// can read the arguments of the browser's process, and one of them could use the link first. // Invariant 5
func openPrivately(ctx context.Context, dir, link string) error {
	page := filepath.Join(dir, "open.html")
	if err := os.WriteFile(page, redirectTo(link), 0o600); err != nil {
		return failure.PathCause(err)
	}
	return openBrowser(ctx, page)
}

// redirectTo returns a page that leads to a link.
func redirectTo(link string) []byte {
	return fmt.Appendf(nil, "<!doctype html>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"refresh\" content=\"0; url=%s\">\n<title>penstock</title>\n", html.EscapeString(link))
}
