package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/lmittmann/tint"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/cmd/internal/setup"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/plainerror"
)

// app has what all commands share: the global flags and the outputs. Data is written to out, everything else to err.
type app struct {
	logFormat  string
	verbose    bool
	quiet      bool
	noProgress bool
	json       bool

	out, err io.Writer
	umask    fs.FileMode    // umask of the process when it started
	screen   *render.Screen // writes messages to err, and progress below the messages
	log      *slog.Logger
	started  bool // the command line has been parsed

	open     open.Opener    // opens sources, destinations and the state; open.File is the configuration file
	redactor *wire.Redactor // hides secrets in the daemon's output: the secrets of all configurations that the daemon has used

	byteBudget int64 // byte budget of a run; 0 for the default
}

// setLog sets the log of the command and of everything that the command opens.
func (a *app) setLog(h slog.Handler) {
	a.log = slog.New(h)
	a.open.Log = a.log
}

// start sets up the log. It is called when the flags are parsed.
func (a *app) start() error {
	level := slog.LevelInfo
	switch {
	case a.verbose && a.quiet:
		return fmt.Errorf("-v and -q contradict each other")
	case a.verbose:
		level = slog.LevelDebug
	case a.quiet:
		level = slog.LevelError
	}
	a.screen = &render.Screen{W: a.err}
	switch a.logFormat {
	case "json":
		a.setLog(slog.NewJSONHandler(a.screen, &slog.HandlerOptions{Level: level, ReplaceAttr: plainAttr}))
	case "text":
		a.setLog(tint.NewTextHandler(a.screen, &tint.Options{Level: level, TimeFormat: time.TimeOnly, NoColor: !render.Colored(a.err), ReplaceAttr: plainAttr}))
	default:
		return fmt.Errorf("--log-format %q: want text or json", a.logFormat)
	}
	a.started = true
	return nil
}

// plainAttr writes errors in the log in plain words.
func plainAttr(_ []string, attr slog.Attr) slog.Attr {
	if err, ok := attr.Value.Any().(error); ok {
		attr.Value = slog.StringValue(plainerror.Text(err.Error()))
	}
	return attr
}

// live reports whether progress may be redrawn in place.
func (a *app) live() bool {
	return !a.noProgress && !a.quiet && !a.verbose && a.logFormat == "text" && isTerminal(a.err) && os.Getenv("TERM") != "dumb"
}

// printError prints err, one line per fault, and then the hint.
func (a *app) printError(err error) {
	f, ok := errors.AsType[*failure.Error](err)
	if ok && f.Err == nil {
		return
	}
	w, text := a.err, plainerror.Text(err.Error())
	hint := ""
	_, unprinted := errors.AsType[*render.OutputError](err)
	switch {
	case ok && f.Hint != "":
		hint = f.Hint
	case errors.Is(err, state.ErrLocked):
		// Cause: another process holds a lock, for example a run of the same pipeline
		hint = "wait for the other process or stop it, then run again; nothing was changed"
	case errors.Is(err, config.ErrUnset):
		// Cause: the configuration names an environment variable that is not set
		hint = "export the variable, or write it into .env beside the configuration: NAME=value, and chmod 600 .env"
	case !unprinted:
		hint = render.DestinationRemedy(err)
	}
	file := ""
	if a.started { // otherwise the hint is about the command line, and its commands read no configuration
		file = a.open.File
	}
	if a.started && a.logFormat == "json" {
		lines := strings.Split(strings.TrimSpace(text), "\n")
		for i, line := range lines {
			var attrs []any
			if i == len(lines)-1 && hint != "" { // in a line of its own, -q would leave the hint out
				attrs = []any{"hint", render.Suggest(hint, file)}
			}
			a.log.Error(strings.TrimSpace(line), attrs...)
		}
		return
	}
	for line := range strings.Lines(render.Printable(text, true)) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			fmt.Fprintf(w, "%s %s\n", render.Bad(w, "penstock:"), line)
		}
	}
	if hint != "" {
		_ = render.Hint(w, "", hint, file)
	}
}

// confirm asks the user for confirmation. If the user has passed --yes, it does not ask.
func (a *app) confirm(ctx context.Context, yes bool, question string) error {
	if yes {
		return nil
	}
	p := setup.NewPrompt(a.err)
	if p == nil {
		return failure.Usage("pass --yes", "cannot ask without a terminal: %s", question)
	}
	agreed, err := p.Yes(ctx, question)
	if err == nil && !agreed {
		return failure.Usage("", "nothing was changed")
	}
	return err
}
