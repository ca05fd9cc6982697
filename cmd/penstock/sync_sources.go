package main

import (
	"context"
	"fmt"
	"io"

	"github.com/penstock-data/penstock/cmd/internal/execute"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/state/plainerror"
)

// syncSources makes one run over those sources of a pipeline that match the patterns, and prints the result of each
// source.
func (a *app) syncSources(ctx context.Context, r execute.Run, only []string) (err error) {
	if r.Sources, err = r.Conf.Pick(r.Pipeline, only); err != nil {
		return err
	}
	shown := &sourcesShown{log: a.log, silent: a.noProgress || a.quiet}
	r.Begun, r.Show = shown.begin, func(*open.Run) (func(pipeline.Event), func()) { return shown.event, func() {} }
	r.Ended = func(o fleet.Outcome, of pipeline.Report) error {
		shown.ended(o)
		if !a.json {
			return nil
		}
		return render.NewEncoder(a.out).Encode(render.ReportJSON(of, a.open.File))
	}
	result, err := a.executor(r.Conf).Run(ctx, r)
	shown.close()
	if err != nil {
		return err
	}
	if err := a.concludeAll(result); err != nil {
		return err
	}
	return failure.Exit(result.ExitCode)
}

// concludeAll prints the sources that are not complete, and the totals.
func (a *app) concludeAll(r execute.Result) error {
	if a.json {
		return render.NewEncoder(a.out).Encode(sumsOf(r))
	}
	if a.quiet && r.Report.Status == pipeline.StatusComplete {
		return nil
	}
	a.summariseAll(a.out, r)
	return nil
}

// sumsJSON is the last line that `sync --json` prints for a run over several sources.
type sumsJSON struct {
	Run      string          `json:"run"`
	Pipeline string          `json:"pipeline"`
	Status   pipeline.Status `json:"status"`
	ExitCode int             `json:"exit_code"`
	Seconds  float64         `json:"seconds"`
	Requests int             `json:"requests"`
	Paused   int             `json:"paused,omitempty"`
	Sources  []fleet.Outcome `json:"sources"`

	Commands []pipeline.Command `json:"commands,omitempty"`
	Error    string             `json:"error,omitempty"`
}

func sumsOf(r execute.Result) sumsJSON {
	of := r.Report
	sums := sumsJSON{
		Run: of.Run, Pipeline: of.Pipeline, Status: of.Status, ExitCode: r.ExitCode, Seconds: of.Ended.Sub(of.Started).Seconds(),
		Requests: of.Requests, Paused: r.Paused, Sources: r.Sources,
		Commands: of.Commands,
	}
	if of.Err != nil {
		sums.Error = plainerror.Text(of.Err.Error())
	}
	return sums
}

// maxShown is how many incomplete sources a summary names.
const maxShown = 20

func (a *app) summariseAll(w io.Writer, r execute.Result) {
	complete, shown := 0, 0
	for _, o := range r.Sources {
		if o.Complete() {
			complete++
			continue
		}
		if shown++; shown > maxShown && !a.verbose {
			continue
		}
		fmt.Fprintf(w, "%s %s: %s\n", render.Label(w, string(o.Status)), o.Source, render.Suggest(trouble(o), a.open.File))
	}
	if more := shown - maxShown; more > 0 && !a.verbose {
		fmt.Fprintf(w, "            and %s more; %s shows all\n", render.Plural(more, "source"), render.Suggest("`penstock sources list`", a.open.File))
	}
	of := r.Report
	fmt.Fprintf(w, "\nrun %s of %s: %s in %s, %d of %s complete%s, %s requests, %s written\n", of.Run, of.Title(), render.Tone(w, string(of.Status)),
		render.Brief(of.Ended.Sub(of.Started)), complete, render.Plural(len(r.Sources), "source"), pausedWords(r.Paused),
		render.Grouped(int64(of.Requests)), render.Plural(int(of.Totals().Counts.Written), "row"))
	render.Commands(w, of.Commands, a.verbose)
	if of.Err != nil {
		a.printError(of.Err)
	}
}

func pausedWords(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d paused", n)
}

// trouble describes in one line why a source is not complete.
func trouble(o fleet.Outcome) string {
	text := render.Printable(o.Error, false)
	if o.Short > 0 && o.Short < o.Streams {
		text = fmt.Sprintf("%d of %s: %s", o.Short, render.Plural(o.Streams, "stream"), text)
	}
	return text
}
