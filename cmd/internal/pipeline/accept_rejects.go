package pipeline

import (
	"context"
	"time"
)

// Accepted is how many rejects of one stream in one destination a person has
// accepted.
type Accepted struct {
	Stream      string `json:"stream"`
	Destination string `json:"destination"`
	Records     int64  `json:"records"`         // that are not in the tables
	Values      int64  `json:"values"`          // of records that are
	Left        int64  `json:"left"`            // not accepted: there are too many at once
	Error       string `json:"error,omitempty"` // why the destination failed
}

// AcceptReport is the outcome of an AcceptRejects. There is no run where Streams
// is empty.
type AcceptReport struct {
	Run     string     `json:"run"`
	Streams []Accepted `json:"streams"`
}

// ExitCode is 0 where all rejects are accepted, 75 where some are left and 1
// where a destination failed.
func (r AcceptReport) ExitCode() int {
	return rejectsExit(r.Streams, func(s Accepted) (string, int64) { return s.Error, s.Left })
}

// AcceptRejects notes for the open rejects of the streams of c that the user accepts
// their loss: from then on they do not keep their stream from being complete. A record
// that is rejected for another reason later has to be accepted again. AcceptRejects
// makes no request to the source.
func AcceptRejects(ctx context.Context, c Config) (rep AcceptReport, err error) {
	r, err := newRun(c)
	if err != nil {
		return rep, err
	}
	rep.Run, err = r.overRejects(ctx, nil, func(t *retrial) {
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

// accept notes the acceptance of t's rejects, in one transaction at the place
// where the stream stands.
func (t *retrial) accept(ctx context.Context, a *Accepted) error {
	key := t.key(t.stream.Name)
	stored, err := t.dest.Cursor(ctx, key)
	if err != nil {
		return err
	}
	pos, err := decodePosition(stored)
	if err != nil {
		return err
	}
	all, err := t.rejects(ctx, func(j *reject) bool { return j.accepted.IsZero() })
	if err != nil {
		return err
	}
	a.Left, t.done.Left = t.done.Left, 0
	now := t.Now()
	var rows [][]any
	for _, j := range all {
		rows = append(rows, j.row(time.Time{}, now))
		if j.record {
			a.Records++
		} else {
			a.Values++
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return t.commit(ctx, key, stored, pos, &mended{}, rows)
}
