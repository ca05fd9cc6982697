package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/penstock-data/penstock/cmd/internal/commandline"
	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/render"
)

// defaultConfig is the file that is read without -c.
const defaultConfig = config.DefaultFile

// runCommand runs one command line and returns the exit code.
func runCommand(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	return (&app{out: stdout, err: stderr, umask: narrowUmask()}).execute(ctx, args)
}

func (a *app) execute(ctx context.Context, args []string) int {
	a.open.Context, a.open.Kinds, a.open.UserAgent = ctx, destinationKinds(), "penstock/"+versionNow().Version
	a.setLog(slog.DiscardHandler)
	out := &render.Output{Writer: a.out}
	a.out = out
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.err)
	strictHelp(root)
	cmd, err := root.ExecuteContextC(ctx)
	if cerr := a.open.Close(); err == nil {
		err = cerr
	}
	switch {
	case err == nil && out.Err == nil:
		return failure.ExitDone
	case err == nil:
		err = out.Err
	case !a.started: // an error of cobra: unknown command, flag or argument
		err = commandline.UsageError(cmd, err)
	}
	a.printError(err)
	return failure.CodeOf(ctx, err)
}

// root returns the command tree.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:                        "penstock",
		Short:                      "read a business platform's API completely and load it as typed tables",
		SilenceErrors:              true,
		SuggestionsMinimumDistance: 2,
		SilenceUsage:               true,
		Version:                    versionNow().String(),
		Args:                       knownVerb,
		PersistentPreRunE:          func(*cobra.Command, []string) error { return a.start() },
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("{{.Version}}\n")
	f := root.PersistentFlags()
	f.StringVarP(&a.open.File, "config", "c", defaultConfig, "configuration `file`")
	f.StringVar(&a.logFormat, "log-format", "text", "how messages on stderr are written: text or json")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "print more details")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "print errors only")
	f.BoolVar(&a.noProgress, "no-progress", false, "show no progress, even on a terminal")
	f.BoolVar(&a.json, "json", false, "print data as JSON on stdout")
	root.AddCommand(
		initCmd(a), checkCmd(a), loginCmd(a), logoutCmd(a), streamsCmd(a), discoverCmd(a), explainCmd(a), previewCmd(a), planCmd(a), syncCmd(a), backfillCmd(a), serveCmd(a), a.workerCmd(), verifyCmd(a), statusCmd(a), runsCmd(a), rejectsCmd(a),
		sourcesCmd(a), stateCmd(a), migrateCmd(a), maintainCmd(a), schemaCmd(a), webhooksCmd(a), queryCmd(a), uiCmd(a), mcpCmd(a), pathCmd(a), docsCmd(a), viewsCmd(a), importCmd(a), sandboxCmd(a), versionCmd(a),
	)
	commandline.Complete(root, func() string { return a.open.File })
	return root
}

// strictHelp makes cobra's commands help and completion refuse unknown words, as all other commands do. The output of
// root must be set before, because the command completion stores it.
func strictHelp(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "completion":
			c.Short = "print a script that completes commands, flags and names in a shell"
			c.Args, c.RunE = knownVerb, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		case "help":
			c.Short = "print the help of a command"
			c.Run, c.RunE = nil, func(cmd *cobra.Command, args []string) error {
				of, left, err := cmd.Root().Find(args)
				if err == nil && len(left) > 0 {
					err = knownVerb(of, left)
				}
				if err != nil {
					// Cause: the command does not exist
					return failure.Usage("`penstock --help` lists the commands and flags", "%w", err)
				}
				of.InitDefaultHelpFlag()
				of.InitDefaultVersionFlag()
				return of.Help()
			}
		}
	}
}

// knownVerb returns an error for an unknown command.
func knownVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return fmt.Errorf("no command %q; did you mean %q?", args[0], near[0])
	}
	return fmt.Errorf("no command %q", args[0])
}
