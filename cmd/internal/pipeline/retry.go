package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// RetryOptions say which rejects are tried again.
type RetryOptions struct {
	Streams []string // by name, of Config.Streams; nil: all that have rejects
}

// Retried is what became of one stream's rejects in one destination.
type Retried struct {
	Stream      string `json:"stream"`
	Destination string `json:"destination"`
	Retried     int64  `json:"retried"`    // records that were tried again
	Resolved    int64  `json:"resolved"`   // of these, those the tables hold now
	Superseded  int64  `json:"superseded"` // rejects, beside them, that a later pass has gone over
	Rejected    int64  `json:"rejected"`   // of those retried, still rejected
	Waiting     int64  `json:"waiting"`    // values; their records are in the tables, and the next run writes those that fit by then
	Left        int64  `json:"left"`       // records not tried: there are too many at once

	Still []StillRejected `json:"still,omitempty"` // some of Rejected
	Error string          `json:"error,omitempty"` // why the destination failed
}

// StillRejected is a record that cannot be loaded yet, and why.
type StillRejected struct {
	Run     string `json:"run"`
	Ordinal int64  `json:"ordinal"` // which record of that run's pass
	Key     string `json:"key,omitempty"`
	Reason  string `json:"reason"`
}

// RetryReport is the outcome of a RetryRejects. Nothing was done, and there is
// no run, where Streams is empty.
type RetryReport struct {
	Run     string    `json:"run"`
	Streams []Retried `json:"streams"`
}

// ExitCode is 0 where no record is rejected any more, 75 where some are and 1
// where a destination failed.
func (r RetryReport) ExitCode() int {
	return rejectsExit(r.Streams, func(s Retried) (string, int64) { return s.Error, s.Rejected + s.Left })
}

// rejectsExit is the exit code for the outcomes of streams: 1 where of has an error for
// one, else 75 where it has rejects that are left, else 0.
func rejectsExit[S any](streams []S, of func(S) (err string, left int64)) int {
	code := exitComplete
	for _, s := range streams {
		switch err, left := of(s); {
		case err != "":
			return exitFailed
		case left > 0:
			code = exitPartial
		}
	}
	return code
}

// Bounds of what one call takes up for one stream and destination. // Invariant 6
const (
	retryRecords = 10_000
	retryBytes   = 32 << 20
	stillListed  = 20
)

// RetryRejects takes up again the records that the destinations of c keep as
// rejects, with the rules and the tables as they are by now: those which fit are
// written, and are rejects no more, in one transaction a stream. The source is
// not asked; what a later pass has seen of a record stands. // Invariant 8
//
// A value that was rejected while its record was loaded is not taken up. The
// next run does so: it reads the record, and finds it changed if the stream's
// rules are.
func RetryRejects(ctx context.Context, c Config, o RetryOptions) (rep RetryReport, err error) {
	r, err := newRun(c)
	if err != nil {
		return rep, err
	}
	for _, name := range o.Streams {
		if !slices.ContainsFunc(r.Streams, func(s schemas.Stream) bool { return s.Name == name }) {
			return rep, fmt.Errorf("retry rejects of %s: no stream %q in it", c.Name, name)
		}
	}
	r.settle(ctx)
	rep.Run, err = r.overRejects(ctx, o.Streams, func(w *retrial) {
		if w.done.Error = w.attempt(func() error { return w.retry(ctx) }); w.done.Error != "" {
			w.done.Resolved, w.done.Superseded, w.counts = 0, 0, Counts{}
		}
		rep.Streams = append(rep.Streams, w.done)
	})
	return rep, err
}

// overRejects calls do for each stream, of some or for nil of all, that has rejects in
// a destination, within a run of its own, whose id it returns. There is no run where
// there is nothing to do.
func (r *run) overRejects(ctx context.Context, only []string, do func(*retrial)) (id string, err error) {
	work, err := r.rejected(ctx, only)
	if err != nil || len(work) == 0 {
		return "", err
	}
	if err := r.open(ctx); err != nil {
		_, err = r.finish(ctx, fmt.Errorf("start run: %w", err))
		return "", err
	}
	for _, w := range work {
		do(w)
		r.reports = append(r.reports, w.report(ctx))
	}
	_, err = r.finish(ctx, nil)
	return r.Run, err
}

// attempt calls do unless the destination is down. It keeps the error and returns its
// text, "" for none.
func (t *retrial) attempt(do func() error) string {
	if t.err = t.down[t.dest.Name]; t.err == nil {
		t.err = guard(t.stream.Name, do)
	}
	if t.err == nil {
		return ""
	}
	return t.err.Error()
}

// retrial is the rejects of one stream in one destination, taken up again.
type retrial struct {
	*run
	stream schemas.Stream
	dest   Destination
	done   Retried
	err    error // of the attempt
	counts Counts
}

// rejected are the streams that have rejects to take up, each with its
// destination.
func (r *run) rejected(ctx context.Context, only []string) ([]*retrial, error) {
	var all []*retrial
	for _, d := range r.Destinations {
		waiting, err := r.streamsWithRejects(ctx, d)
		if err != nil {
			return nil, fmt.Errorf("read rejects of %s: %w", d.Name, err)
		}
		for _, s := range r.Streams {
			if waiting[s.Name] && (only == nil || slices.Contains(only, s.Name)) {
				all = append(all, &retrial{run: r, stream: s, dest: d, done: Retried{Stream: s.Name, Destination: d.Name}})
			}
		}
	}
	return all, nil
}

// retry takes the rejects up.
func (t *retrial) retry(ctx context.Context) error {
	key := t.key(t.stream.Name)
	stored, err := t.dest.Cursor(ctx, key)
	if err != nil {
		return err
	}
	pos, err := decodePosition(stored)
	if err != nil {
		return err
	}
	all, err := t.rejects(ctx, func(*reject) bool { return true })
	if err != nil {
		return err
	}
	open := t.sort(all, pos)
	m, err := t.resubmit(ctx, open)
	if err != nil {
		return err
	}
	defer m.release()
	var rows [][]any
	now := t.Now()
	for _, j := range all {
		if j.resolved {
			rows = append(rows, j.row(now, j.accepted))
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return t.commit(ctx, key, stored, pos, m, rows)
}

// commit writes what fits by now and marks its rejects, at the place where the
// stream stands: nothing was read.
func (t *retrial) commit(ctx context.Context, key state.Key, stored state.Cursor, pos position, m *mended, rows [][]any) error {
	tx, err := t.dest.Begin(ctx, key, stored, t.onceOf(t.stream, t.Run))
	if err != nil {
		return err
	}
	defer tx.Rollback()
	for _, b := range m.batches {
		if err := tx.Write(ctx, b.Table, b.Batch); err != nil {
			return err
		}
	}
	for _, r := range m.rejects {
		rows = append(rows, rejectRow(t.Run, t.Name, t.stream.Name, 1, t.Now(), time.Time{}, r))
	}
	out, err := tx.Apply(ctx, load.Sweep{})
	if err != nil {
		return err
	}
	t.counts.Written, t.counts.Unchanged, t.counts.Deduplicated = out.Written, out.Unchanged, out.Deduplicated
	if err := writeOwn(ctx, tx, load.Rejects, rows...); err != nil {
		return err
	}
	pos.touchedBy = t.Run // another cursor, and the same place
	return tx.Commit(ctx, pos.encode())
}

// report is what the run's row tells of t.
func (t *retrial) report(ctx context.Context) StreamReport {
	s := StreamReport{Stream: t.stream.Name, Table: t.stream.Table.Name, Destination: t.dest.Name, Counts: t.counts, Err: t.err}
	s.Counts.Fetched = s.Counts.Written + s.Counts.Unchanged + s.Counts.Deduplicated
	if s.Status, _ = classify(ctx, s.Err); s.Err == nil && t.done.Rejected+t.done.Left > 0 {
		s.Status = StatusPartial
	}
	return s
}
