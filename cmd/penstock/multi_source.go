package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/cmd/internal/render"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// syncAll makes one run over the sources of a pipeline and prints the result of each.
func (a *app) syncAll(ctx context.Context, c *config.Config, p config.Pipeline, f syncFlags) error {
	sources, err := c.Pick(p, f.sources)
	if err != nil {
		return err
	}
	if a.open.Locks == nil {
		a.open.Locks, a.open.Pool = open.NewPipelineLocks(), open.NewDestinationPool()
	}
	m := &multiSource{app: a, conf: c, pipeline: p, flags: f}
	if a.json {
		m.each = func(_ fleet.Outcome, r pipeline.Report) error {
			return render.NewEncoder(a.out).Encode(render.ReportJSON(r))
		}
	}
	t, paused, err := m.run(ctx, sources)
	if err != nil {
		return err
	}
	if err := a.concludeAll(t, paused); err != nil {
		return err
	}
	return failure.Exit(t.ExitCode())
}

// multiSource is a run over the sources of a pipeline.
type multiSource struct {
	*app
	conf     *config.Config
	pipeline config.Pipeline
	flags    syncFlags
	each     func(fleet.Outcome, pipeline.Report) error // called once for each source that has ended, never concurrently; may be nil
	cancel   context.CancelCauseFunc                    // cancels the run; nil before it starts
}

// run executes the run. paused is the number of sources left out because they are paused. A source that
// fails or does not answer does not stop the others.
func (m *multiSource) run(ctx context.Context, sources []config.Ref) (t *fleet.Outcomes, paused int, err error) {
	turn, paused, err := m.startOrder(ctx, sources)
	if err != nil {
		return nil, 0, err
	}
	run := m.flags.run
	if run == "" {
		run = runid.New(m.open.State(m.conf).Now())
	}
	t = fleet.NewOutcomes(run, m.pipeline.Name)
	done, err := m.keepOpen(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer done()
	if err := m.warnRenamed(ctx, sources); err != nil {
		m.log.Warn("cannot check for renamed sources", "pipeline", m.pipeline.Name, "error", err)
	}
	ledger, err := m.openLedger(ctx)
	if err != nil {
		m.log.Warn("units of the run are not recorded", "pipeline", m.pipeline.Name, "error", err)
	} else if ledger != nil {
		defer ledger.Close()
	}
	worker := m.workerName()
	ctx, m.cancel = context.WithCancelCause(ctx)
	defer m.cancel(nil)
	shown := m.show(len(turn))
	defer shown.close()
	ended := make(chan ending)
	jobs := make([]fleet.Job, len(turn))
	room := m.open.MemoryFor(m.conf, m.pipeline)
	budget := pipeline.NewBudget(or(m.byteBudget, room.Budget, pipeline.DefaultByteBudget))
	for i, s := range turn {
		f := m.flags
		f.run, f.budget, f.ledger, f.worker = run, budget, ledger, worker
		jobs[i] = m.job(s, f, shown, ended)
	}
	go func() {
		fleet.Pool{}.Run(ctx, jobs)
		close(ended)
	}()
	return t, paused, m.collect(ctx, t, shown, ended)
}

// recordEvery is how many outcomes are stored together.
const recordEvery = 50

// collect gathers the outcome of each source, and stores it.
func (m *multiSource) collect(ctx context.Context, t *fleet.Outcomes, shown *sourcesShown, ended <-chan ending) error {
	var records []state.SourceRecord
	var errs []error
	keep := func() {
		if len(records) > 0 && !m.flags.options.DryRun {
			if err := m.keepSources(context.WithoutCancel(ctx), m.conf, records); err != nil {
				m.log.Warn("outcomes of sources are not recorded", "error", err)
			}
		}
		records = nil
	}
	for e := range ended {
		o := t.Add(e.source, e.report, e.err)
		shown.ended(o)
		if o.Error != "" && !o.Complete() {
			m.log.Debug("source not complete", "pipeline", m.pipeline.Name, "source", o.Source, "status", o.Status, "error", o.Error)
		}
		if m.each != nil {
			errs = append(errs, m.each(o, reported(m.pipeline, t, e)))
		}
		if o.Status == pipeline.StatusStopped {
			continue // a stopped run says nothing about the source
		}
		records = append(records, m.record(t.Run(), o, e.silent))
		if len(records) == recordEvery {
			keep()
		}
	}
	keep()
	return errors.Join(errs...)
}

// reported returns the report of a source's run. If the run did not start, the report has the reason.
func reported(p config.Pipeline, t *fleet.Outcomes, e ending) pipeline.Report {
	r := e.report
	if r.Run == "" {
		whole := t.Report()
		r = pipeline.Report{Run: whole.Run, Pipeline: p.Name, Status: pipeline.StatusFailed, Started: whole.Ended, Ended: whole.Ended, Err: e.err}
	}
	r.Source = e.source
	return r
}

// keepOpen opens the destinations whose tables the sources share. They stay open until done is called.
func (m *multiSource) keepOpen(ctx context.Context) (done func(), err error) {
	var open []load.Destination
	done = func() {
		for _, d := range open {
			if err := d.Close(); err != nil {
				m.log.Warn("close destination", "error", err)
			}
		}
	}
	if m.flags.options.DryRun {
		return done, nil
	}
	for _, to := range m.pipeline.To {
		d, _ := m.conf.Destination(to.Text)
		if d.PerSource() {
			continue
		}
		dest, err := m.open.Destination(ctx, m.conf, d)
		if err != nil && len(m.pipeline.To) > 1 && ctx.Err() == nil && failure.CodeOf(ctx, err) != failure.ExitUsage {
			continue // the other destinations still get their rows
		}
		if err != nil {
			done()
			return nil, err
		}
		open = append(open, dest)
	}
	return done, nil
}

// openLedger opens the unit store for all sources. It returns nil in a dry run, and if the state is in a
// database.
func (m *multiSource) openLedger(ctx context.Context) (state.UnitStore, error) {
	if m.flags.options.DryRun || m.conf.State.URL != "" {
		return nil, nil
	}
	return m.open.State(m.conf).OpenUnits(ctx)
}

// or returns the first number that is not 0.
func or(all ...int64) int64 {
	for _, n := range all {
		if n != 0 {
			return n
		}
	}
	return 0
}

// concludeAll prints the sources that are not complete, and the totals.
func (a *app) concludeAll(t *fleet.Outcomes, paused int) error {
	r := t.Report()
	if a.json {
		return render.NewEncoder(a.out).Encode(sumsOf(t, r, paused))
	}
	if a.quiet && r.Status == pipeline.StatusComplete {
		return nil
	}
	a.summariseAll(a.out, t, r, paused)
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
}

func sumsOf(t *fleet.Outcomes, r pipeline.Report, paused int) sumsJSON {
	return sumsJSON{
		Run: r.Run, Pipeline: r.Pipeline, Status: r.Status, ExitCode: t.ExitCode(), Seconds: r.Ended.Sub(r.Started).Seconds(),
		Requests: r.Requests, Paused: paused, Sources: t.Outcomes(),
	}
}

// maxShown is how many incomplete sources a summary names.
const maxShown = 20

func (a *app) summariseAll(w io.Writer, t *fleet.Outcomes, r pipeline.Report, paused int) {
	complete, shown := 0, 0
	outcomes := t.Outcomes()
	for _, o := range outcomes {
		if o.Complete() {
			complete++
			continue
		}
		if shown++; shown > maxShown && !a.verbose {
			continue
		}
		fmt.Fprintf(w, "%-11s %s: %s\n", o.Status, o.Source, trouble(o))
	}
	if more := shown - maxShown; more > 0 && !a.verbose {
		fmt.Fprintf(w, "            and %s more; `penstock sources list` shows all\n", render.Plural(more, "source"))
	}
	total := r.Totals()
	fmt.Fprintf(w, "\nrun %s of %s: %s in %s, %d of %s complete%s, %s requests, %s written\n", r.Run, r.Title(), r.Status,
		render.Brief(r.Ended.Sub(r.Started)), complete, render.Plural(len(outcomes), "source"), pausedWords(paused), render.Grouped(int64(r.Requests)), render.Plural(int(total.Counts.Written), "row"))
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
