package config

import (
	"slices"

	"github.com/penstock-data/penstock/schemas"
)

// checkChecks reports checks of the data that cannot work with the mode of a stream, or with the webhooks of a source.
func (c *Config) checkChecks(p Pipeline, streams []Stream, say func(Pos, string, ...any)) {
	source := c.sourceWithWebhooks(p)
	for _, s := range streams {
		for _, check := range s.Checks {
			what := "stream " + s.Name + ": check " + check.Name + ": "
			if whole := check.Kind == schemas.CheckUnique || check.Kind == schemas.CheckRows; whole && s.Table.Mode == schemas.Append {
				say(check.At, "%sa table in mode append keeps every version of a record, and %s would count all of them; use a check with `sql`, or another mode", what, check.Kind)
				continue
			}
			if !check.Hold || source == "" {
				continue
			}
			known, err := schemas.LoadEvents()
			switch {
			case err != nil:
				say(check.At, "%s%v", what, err)
			case known.HasEvents(s.Name) || s.Class == schemas.ClassDetail && known.HasEvents(s.Parent): // otherwise an event would be tried again until it is given up
				say(check.At, "%ssource %s has `webhooks`, whose events change this stream; an event cannot be held back, so use `on_fail: warn`", what, source)
			}
		}
	}
}

// sourceWithWebhooks returns the first source of a pipeline that has webhooks; "" if there is none.
func (c *Config) sourceWithWebhooks(p Pipeline) string {
	for _, from := range p.From {
		if s, ok := c.Source(from.Text); ok && s.Webhooks != nil {
			return s.Name
		}
	}
	return ""
}

// HasCheck reports whether a stream has a check of the data with this name.
func (c *Config) HasCheck(stream, check string) bool {
	return slices.ContainsFunc(c.Streams, func(s Stream) bool {
		return s.Name == stream && slices.ContainsFunc(s.Checks, func(of Check) bool { return of.Name == check })
	})
}
