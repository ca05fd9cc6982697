// Package rejects maps the stored rejects of a pipeline again, or accepts them as losses. It sends no requests to the
// source.
package rejects

import (
	"context"
	"fmt"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/reject"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// Retried is the outcome for one stream's rejects in one destination.
type Retried struct {
	Stream      string `json:"stream"`
	Destination string `json:"destination"`
	Retried     int64  `json:"retried"`    // records that were retried
	Resolved    int64  `json:"resolved"`   // how many of them are now in the tables
	Superseded  int64  `json:"superseded"` // rejects that were not retried, because a later pass has stored the record or found it gone
	Rejected    int64  `json:"rejected"`   // how many of the retried records are still rejected
	Waiting     int64  `json:"waiting"`    // rejected values whose records are in the tables; the next run stores those that fit
	Left        int64  `json:"left"`       // records that were not retried, because one call retries only a limited number

	Still []StillRejected `json:"still,omitempty"` // some of the records that are still rejected
	Error string          `json:"error,omitempty"` // why the destination failed
}

// StillRejected is a record that still cannot be loaded, and why.
type StillRejected struct {
	Run     string `json:"run"`
	Ordinal int64  `json:"ordinal"` // number of the record in that run's pass
	Key     string `json:"key,omitempty"`
	Reason  string `json:"reason"`
}

// RetryReport is the outcome of Retry. If no stream had rejects, Streams is empty and the call is not recorded
// as a run.
type RetryReport struct {
	Run     string    `json:"run"`
	Streams []Retried `json:"streams"`
}

// ExitCode returns 0 if no record is rejected any more, 75 if some records still are, and 1 if a destination failed.
func (r RetryReport) ExitCode() int {
	return rejectsExit(r.Streams, func(s Retried) (string, int64) { return s.Error, s.Rejected + s.Left })
}

func rejectsExit[S any](streams []S, outcome func(S) (err string, left int64)) int {
	code := failure.ExitDone
	for _, s := range streams {
		switch err, left := outcome(s); {
		case err != "":
			return failure.ExitFailed
		case left > 0:
			code = failure.ExitPartial
		}
	}
	return code
}

// Limits of one call for one stream and destination. // Invariant 6
const (
	retryRecords = 10_000
	retryBytes   = 32 << 20
	stillListed  = 20
)

// Retry maps the rejected records in the destinations of c again, with the current rules and tables. For each stream,
// one transaction writes the records that fit, and resolves their rejects. Retry sends no requests to the source, and
// replaces no row that a later pass has written. // Invariant 8
//
// It does not retry single values that were rejected although the rest of the record was loaded. The next run reads
// their records, and writes them again if the stream's rules have changed.
func Retry(ctx context.Context, c pipeline.Config) (rep RetryReport, err error) {
	if c.Streams, err = pipeline.Settle(ctx, c); err != nil {
		return rep, err
	}
	rep.Run, err = overRejects(ctx, c, func(t *rejectRetry) {
		if t.done.Error = t.attempt(func() error { return t.retry(ctx) }); t.done.Error != "" {
			t.done.Resolved, t.done.Superseded, t.counts = 0, 0, pipeline.Counts{}
		}
		rep.Streams = append(rep.Streams, t.done)
	})
	return rep, err
}

// overRejects calls do() for each destination and stream with rejects, and records all calls as one run. If there are
// no rejects, it starts no run.
func overRejects(ctx context.Context, c pipeline.Config, do func(*rejectRetry)) (run string, err error) {
	work, err := rejected(ctx, c)
	if err != nil || len(work) == 0 {
		return "", err
	}
	rep, err := pipeline.Record(ctx, c, func(r pipeline.Recorded) (reports []pipeline.StreamReport) {
		for _, t := range work {
			t.Recorded = r
			do(t)
			reports = append(reports, t.report())
		}
		return reports
	})
	return rep.Run, err
}

// attempt calls do() and returns its error as text. If the destination has already failed, attempt does not call do(),
// and returns the earlier error.
func (t *rejectRetry) attempt(do func() error) string {
	if t.err = t.Down[t.dest.Name]; t.err == nil {
		t.err = pipeline.Guard(t.stream.Name, do)
	}
	if t.err == nil {
		return ""
	}
	return t.err.Error()
}

type rejectRetry struct {
	pipeline.Recorded
	stream schemas.Stream
	dest   pipeline.Destination
	done   Retried
	stored state.Cursor
	pos    cursor.Position
	err    error
	counts pipeline.Counts
}

func rejected(ctx context.Context, c pipeline.Config) ([]*rejectRetry, error) {
	var all []*rejectRetry
	for _, d := range c.Destinations {
		waiting, err := streamsWithRejects(ctx, c.Name, d)
		if err != nil {
			return nil, fmt.Errorf("read rejects of %s: %w", d.Name, err)
		}
		for _, s := range c.Streams {
			if waiting[s.Name] {
				all = append(all, &rejectRetry{stream: s, dest: d, done: Retried{Stream: s.Name, Destination: d.Name}})
			}
		}
	}
	return all, nil
}

func (t *rejectRetry) retry(ctx context.Context) error {
	if err := t.locate(ctx); err != nil {
		return err
	}
	all, err := t.rejects(ctx, func(*reject.Row) bool { return true })
	if err != nil {
		return err
	}
	open := t.sort(all, t.pos)
	m, err := t.resubmit(ctx, open)
	if err != nil {
		return err
	}
	defer m.release()
	var rows [][]any
	now := t.Config.Now()
	for _, j := range all {
		if j.Resolved {
			rows = append(rows, j.Values(now, j.Accepted))
		}
	}
	return t.commit(ctx, m, rows)
}

// locate reads the position of the stream in the destination.
func (t *rejectRetry) locate(ctx context.Context) (err error) {
	if t.stored, err = t.dest.Cursor(ctx, t.Config.Key(t.stream.Name)); err != nil {
		return err
	}
	t.pos, err = cursor.Decode(t.stored)
	return err
}

// commit writes the records that fit, and rows of the table of rejects.
func (t *rejectRetry) commit(ctx context.Context, m *refitted, rows [][]any) error {
	if len(rows) == 0 {
		return nil
	}
	tx, err := t.dest.Begin(ctx, t.Config.Key(t.stream.Name), t.stored, t.Config.OncePass(t.stream, t.Config.Run))
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
		rows = append(rows, reject.Values(t.Config.Run, t.Config.Name, t.stream.Name, 1, t.Config.Now(), time.Time{}, r))
	}
	out, err := tx.Apply(ctx, load.Sweep{})
	if err != nil {
		return err
	}
	t.counts.Written, t.counts.Unchanged, t.counts.Deduplicated = out.Written, out.Unchanged, out.Deduplicated
	if err := load.WriteRows(ctx, tx, load.Rejects, rows...); err != nil {
		return err
	}
	t.pos.TouchedBy = t.Config.Run // makes the cursor differ from the stored one; the position stays the same
	return tx.Commit(ctx, t.pos.Encode())
}

func (t *rejectRetry) report() pipeline.StreamReport {
	s := pipeline.StreamReport{Stream: t.stream.Name, Table: t.stream.Table.Name, Destination: t.dest.Name, Counts: t.counts, Err: t.err}
	s.Counts.Fetched = s.Counts.Written + s.Counts.Unchanged + s.Counts.Deduplicated
	if s.Err == nil && t.done.Rejected+t.done.Left > 0 {
		s.Status = pipeline.StatusPartial
	}
	return s
}
