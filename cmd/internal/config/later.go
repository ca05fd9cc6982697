package config

import "fmt"

// Buildable faults, with its place in the file, whatever a pipeline asks for
// that this release reads but cannot do yet: better no run than one that leaves
// a column unmasked. The error is [Faults].
func (c *Config) Buildable(p Pipeline, streams []Stream) error {
	var faults Faults
	say := func(at Pos, format string, args ...any) {
		faults = append(faults, Fault{File: c.File, Pos: at, Message: fmt.Sprintf(format, args...) + " cannot be used in this release"})
	}
	if len(p.From) > 1 {
		say(p.From[1].At, "pipeline %s: a second source", p.Name)
	}
	if p.Mode.Text != "merge" {
		say(p.Mode.At, "pipeline %s: mode %s", p.Name, p.Mode.Text)
	}
	if s := p.Schema; s.Tables != "evolve" || s.Columns != "evolve" || s.Types != "evolve" {
		say(s.At, "pipeline %s: a schema that is not to evolve", p.Name)
	}
	if len(p.Mask) > 0 {
		say(p.Mask[0].At, "pipeline %s: mask", p.Name)
	}
	if c.State.URL != "" {
		say(c.State.At, "state in a database")
	}
	for _, to := range p.To {
		if d, _ := c.Destination(to.Text); d.Publish != "" {
			say(d.At, "destination %s: publish", d.Name)
		}
	}
	for _, s := range streams {
		switch {
		case s.Mode != "" && s.Mode != "merge":
			say(s.At, "stream %s: mode %s", s.Name, s.Mode)
		case s.Incremental != nil:
			say(s.At, "stream %s: incremental", s.Name)
		}
	}
	for _, from := range p.From {
		src, _ := c.Source(from.Text)
		for _, s := range []*Surface{src.V2, src.App} {
			if s != nil && s.Auth.OAuth != nil {
				say(s.Auth.At, "source %s: oauth", src.Name)
			}
		}
	}
	if len(faults) > 0 {
		return faults.sorted()
	}
	return nil
}
