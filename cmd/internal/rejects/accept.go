package rejects

import (
	"context"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/reject"
)

// Accepted counts the rejects of one stream in one destination that a person has accepted.
type Accepted struct {
	Stream      string `json:"stream"`
	Destination string `json:"destination"`
	Records     int64  `json:"records"`         // accepted rejects of whole records, which are missing from the tables
	Values      int64  `json:"values"`          // accepted rejects of single values, whose records are in the tables
	Left        int64  `json:"left"`            // rejects that are not accepted yet, because one call accepts only a limited number
	Error       string `json:"error,omitempty"` // why the destination failed
}

// AcceptReport is the outcome of Accept. If no stream had rejects, Streams is empty and the call is not
// recorded as a run.
type AcceptReport struct {
	Run     string     `json:"run"`
	Streams []Accepted `json:"streams"`
}

// ExitCode returns 0 if all rejects are accepted, 75 if some rejects are left, and 1 if a destination failed.
func (r AcceptReport) ExitCode() int {
	return rejectsExit(r.Streams, func(s Accepted) (string, int64) { return s.Error, s.Left })
}

// Accept marks the open rejects of the streams in c as accepted losses. A stream with open rejects is not complete, but
// a stream with only accepted rejects can be. A record that is later rejected for another reason must be accepted
// again. Accept sends no requests to the source.
func Accept(ctx context.Context, c pipeline.Config) (rep AcceptReport, err error) {
	rep.Run, err = overRejects(ctx, c, func(t *rejectRetry) {
		a := Accepted{Stream: t.stream.Name, Destination: t.dest.Name}
		if a.Error = t.attempt(func() error { return t.accept(ctx, &a) }); a.Error != "" {
			a.Records, a.Values = 0, 0
		}
		if a.Records+a.Values+a.Left > 0 || a.Error != "" {
			rep.Streams = append(rep.Streams, a)
		}
	})
	return rep, err
}

func (t *rejectRetry) accept(ctx context.Context, a *Accepted) error {
	if err := t.locate(ctx); err != nil {
		return err
	}
	all, err := t.rejects(ctx, func(j *reject.Row) bool { return j.Accepted.IsZero() })
	if err != nil {
		return err
	}
	a.Left, t.done.Left = t.done.Left, 0
	now := t.Config.Now()
	var rows [][]any
	for _, j := range all {
		rows = append(rows, j.Values(time.Time{}, now))
		if j.Record {
			a.Records++
		} else {
			a.Values++
		}
	}
	return t.commit(ctx, &refitted{}, rows)
}
