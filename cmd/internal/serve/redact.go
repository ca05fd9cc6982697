package serve

import (
	"slices"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// clean removes secrets from the text of err. errors.Is still finds the errors that err wraps. // Invariant 5
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

// cleanReport removes secrets from the texts of a report. The HTTP client redacts its own texts, but drivers and
// database servers do not.
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
