package config

import "fmt"

// Buildable faults, with its place in the file, whatever a pipeline asks for
// that this release reads but cannot do yet: better no run than one that does
// something else. The error is [Faults].
func (c *Config) Buildable(p Pipeline, streams []Stream) error {
	var faults Faults
	say := func(at Pos, format string, args ...any) {
		faults = append(faults, Fault{File: c.File, Pos: at, Message: fmt.Sprintf(format, args...) + " cannot be used in this release"})
	}
	if c.State.URL != "" {
		say(c.State.At, "state in a database")
	}
	if len(faults) > 0 {
		return faults.sorted()
	}
	return nil
}
