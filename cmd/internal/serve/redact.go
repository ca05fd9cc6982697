package serve

import (
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// clean is err with a text that has no secret in it. What it wraps is still found
// by errors.Is. // Invariant 5
func (d *Daemon) clean(err error) error {
	if err == nil {
		return nil
	}
	was := err.Error()
	text := d.Redact(was)
	if text == was {
		return err
	}
	return &cleaned{error: err, text: text}
}

// cleaned is an error whose own text is not shown.
type cleaned struct {
	error
	text string
}

// Error is the text without secrets.
func (c *cleaned) Error() string { return c.text }

// Unwrap is for whoever asks what kind of error it is.
func (c *cleaned) Unwrap() error { return c.error }

// cleanReport is r with the texts of a run redacted a second time: what a driver
// or a server says of itself did not go by the client that knows the secrets.
func (d *Daemon) cleanReport(r pipeline.Report) pipeline.Report {
	r.Err = d.clean(r.Err)
	r.Streams = slices.Clone(r.Streams)
	for i := range r.Streams {
		r.Streams[i] = d.cleanStream(r.Streams[i])
	}
	return r
}

func (d *Daemon) cleanStream(s pipeline.StreamReport) pipeline.StreamReport {
	s.Err, s.Why = d.clean(s.Err), d.Redact(s.Why)
	s.Notices = slices.Clone(s.Notices)
	for i := range s.Notices {
		s.Notices[i].Reason = d.Redact(s.Notices[i].Reason)
	}
	return s
}
