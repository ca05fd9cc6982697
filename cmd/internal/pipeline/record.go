package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/runid"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/plainerror"
)

// runStream is the stream name under which a pipeline's runs are committed. If two runs overlap, the later commit
// fails with state.ErrMoved.
const runStream = "_run"

// Recorded is a run that reads no stream: see [Record].
type Recorded struct {
	Config  Config           // its field Run is the id of the run
	Down    map[string]error // the destinations that are left out, and why
	Settled map[string]bool  // the destinations in which an earlier run has ended
}

// Record calls do(), and records this call as a run of c. Before the call, Record writes the run's row to the
// destinations. After the call, it writes the run's final row with the reports that do() has returned. If a report has
// no status, its error decides the status.
func Record(ctx context.Context, c Config, do func(Recorded) []StreamReport) (Report, error) {
	r, err := newRun(c)
	if err != nil {
		return Report{Status: StatusFailed}, err
	}
	if err := r.open(ctx); err != nil {
		return r.finish(ctx, fmt.Errorf("start run: %w", err))
	}
	r.reports = do(Recorded{Config: r.Config, Down: r.health.all(), Settled: r.settled})
	for i := range r.reports {
		if s := &r.reports[i]; s.Status == "" {
			s.Status, _ = classify(ctx, s.Err)
		}
	}
	return r.finish(ctx, nil)
}

// open writes the run's row to every destination. It leaves out destinations that fail, and returns an error if all
// of them fail.
func (r *run) open(ctx context.Context) error {
	if r.Options.DryRun {
		return nil
	}
	var rows []*runRow
	for _, d := range r.Destinations {
		if r.health.leftOut(d.Name) != nil {
			continue
		}
		stored, err := d.Cursor(ctx, r.Key(runStream))
		if err != nil {
			r.health.leaveOut(d.Name, fmt.Errorf("destination %s: %w", d.Name, err))
			continue
		}
		row := &runRow{dest: d, stored: stored}
		if p, err := cursor.Decode(stored); err == nil {
			if p.Pass != r.Run { // equal ids: another attempt at the same run
				r.Run = runid.Later(r.Run, p.Pass)
			}
			row.ended, row.before, row.attempt = p.Longest, p.Pass, p.TouchedBy
			r.settled[d.Name] = p.Longest > 0
		}
		rows = append(rows, row)
	}
	for _, row := range rows {
		if err := row.begin(ctx, r); err != nil {
			r.health.leaveOut(row.dest.Name, fmt.Errorf("destination %s: %w", row.dest.Name, err))
			continue
		}
		if err := row.write(ctx, r, Report{Status: StatusRunning}); err != nil {
			r.health.leaveOut(row.dest.Name, err)
			continue
		}
		r.runs = append(r.runs, row)
	}
	if len(r.runs) > 0 {
		return nil
	}
	return errors.Join(slices.Collect(maps.Values(r.health.all()))...)
}

func (w *runRow) write(ctx context.Context, r *run, rep Report) error {
	row, err := r.row(rep, w)
	if err != nil {
		return err
	}
	pos := cursor.Position{Pass: r.Run, TouchedBy: w.attempt, Source: state.Cursor(rep.Status), Ended: rep.Status != StatusRunning, Longest: w.ended}
	if pos.Ended {
		pos.Longest++
	}
	next := pos.Encode()
	if err := w.commit(ctx, r, next, append(w.orphan(r), row), r.checkRows(rep, w.dest.Name)); err != nil {
		return fmt.Errorf("destination %s: %w", w.dest.Name, err)
	}
	w.stored = next
	return nil
}

// commit() commits rows of [load.Runs], results of checks, and the cursor of the runs. If the destination was surveyed,
// the commit is a settlement, which takes fewer statements than a transaction of a stream.
func (w *runRow) commit(ctx context.Context, r *run, next state.Cursor, rows, checked [][]any) error {
	key, pass := r.Key(runStream), load.Pass{Run: r.Run, Whole: true, Now: r.Now}
	s, able := w.dest.Destination.(*surveyedDestination)
	if able {
		at, known := s.surveyOf(key)
		able = known && at.Cursor == w.stored
	}
	var own []load.OwnRows
	for _, of := range []struct {
		table schemas.Table
		rows  [][]any
	}{{load.Checks, checked}, {load.Runs, rows}} {
		if len(of.rows) == 0 {
			continue
		}
		b, err := load.Rows(of.table, of.rows...)
		if err != nil {
			return err
		}
		defer b.Release()
		own = append(own, load.OwnRows{Table: of.table, Batch: b})
	}
	if able {
		return s.by.Settle(ctx, []load.Settlement{{Key: key, Expected: w.stored, Next: next, Pass: pass, Rows: own}})[0]
	}
	tx, err := w.dest.Begin(ctx, key, w.stored, pass)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, o := range own {
		if err := tx.Write(ctx, o.Table, o.Batch); err != nil {
			return err
		}
	}
	return tx.Commit(ctx, next)
}

// orphan returns the final row of an earlier run that never ended because its process was killed. Only one
// process at a time runs a pipeline, so that run cannot be alive.
func (w *runRow) orphan(r *run) [][]any {
	p, err := cursor.Decode(w.stored)
	if err != nil || !p.MidPass() || p.Pass == r.Run {
		return nil
	}
	const killed = "the process was killed before the run ended"
	counts := []byte("{}")
	if r.Keep > 0 { // the run may have removed old rows
		if counts, err = json.Marshal(map[string]removed{"removed": {Before: r.Now().UTC().Add(-r.Keep), Error: killed}}); err != nil {
			return nil
		}
	}
	return [][]any{{p.Pass, r.Name, runid.Time(p.Pass), nil, string(StatusFailed), string(counts), killed}}
}

func summary(rep Report) any {
	const most = 5
	var lines []string
	if rep.Err != nil {
		lines = append(lines, plainerror.Text(rep.Err.Error()))
	}
	more := 0
	for _, s := range rep.Streams {
		switch {
		case s.Err == nil:
		case len(lines) < most:
			lines = append(lines, plainerror.Text(s.Err.Error()))
		default:
			more++
		}
	}
	if more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	if len(lines) == 0 {
		return nil
	}
	return strings.Join(lines, "\n")
}

// finish writes the run's final row. After a stop, it may take recordGrace for this.
func (r *run) finish(ctx context.Context, err error) (Report, error) {
	rep := Report{
		Run: r.Run, Pipeline: r.Name, Started: r.started, Ended: r.Now(),
		Requests: int(r.requestCount.Load()), Streams: r.reports, Err: err, cause: context.Cause(ctx),
	}
	rep.summarise()
	if r.forecast != nil && (rep.Status == StatusComplete || rep.Status == StatusPartial) {
		rep.Forecast = r.forecast.Compare(int64(rep.Requests), rep.Ended.Sub(rep.Started))
	}
	for _, w := range r.runs {
		w.trim(ctx, r)
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordGrace)
	defer cancel()
	if ctx.Err() == nil {
		late = ctx
	}
	var errs []error
	for _, w := range r.runs {
		if err := w.write(late, r, rep); err != nil {
			errs = append(errs, fmt.Errorf("end run: %w", err))
		}
	}
	if len(errs) > 0 {
		rep.partial = rep.Err == nil && len(errs) < len(r.runs)
		rep.Err = errors.Join(append([]error{rep.Err}, errs...)...)
		rep.summarise()
	}
	return rep, rep.Err
}
