package serve

import (
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// clean keeps errors.Is working for the errors that err wraps. // Invariant 5
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

type cleaned struct {
	error
	text string
}

// Error returns the text without secrets.
func (c *cleaned) Error() string { return c.text }

// Unwrap returns the original error.
func (c *cleaned) Unwrap() error { return c.error }

// cleanReport is needed because texts from drivers and database servers have not passed the HTTP client, which
// redacts its own texts.
func (d *Daemon) cleanReport(r pipeline.Report) pipeline.Report {
	r.Err = d.clean(r.Err)
	r.Streams = slices.Clone(r.Streams)
	for i := range r.Streams {
		r.Streams[i] = d.cleanStream(r.Streams[i])
	}
	return r
}

func (d *Daemon) cleanStream(s pipeline.StreamReport) pipeline.StreamReport {
	s.Err, s.Reasons = d.clean(s.Err), d.Redact(s.Reasons)
	s.Notices = slices.Clone(s.Notices)
	for i := range s.Notices {
		s.Notices[i].Reason = d.Redact(s.Notices[i].Reason)
	}
	return s
}
