package proof

import (
	"fmt"
)

// Changes are what a pass has shown, so far, about the way in which incremental
// passes request changes.
type Changes struct {
	Field      string // the configuration, or the probes: the member that holds the time of change
	Edge       string // the extractor: the moment up to where earlier passes had come, less the lookback
	Overlooked int64  // the destination: as in [Facts]
	Misplaced  string // the extractor: as in [Facts]
}

// Refuted says why incremental passes miss changes; "" where nothing shows it. One
// row is enough: an earlier pass should have found it, and others may be missing.
func (c Changes) Refuted() string {
	switch {
	case c.Overlooked > 0:
		return fmt.Sprintf("%s new or changed although %s is before %s, up to where earlier passes had come", were(c.Overlooked), c.Field, c.Edge)
	case c.Misplaced != "":
		return "the latest change does not come first: " + c.Misplaced
	}
	return ""
}

func were(n int64) string {
	if n == 1 {
		return "1 record was"
	}
	return fmt.Sprintf("%d records were", n)
}
