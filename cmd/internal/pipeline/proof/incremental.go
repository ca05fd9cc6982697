package proof

import (
	"fmt"
)

// Changes are the observations of a pass that show whether incremental passes find all changes. The comment of each
// field begins with the component that observes it.
type Changes struct {
	Field      string // the configuration or the probes: the member that contains the time of the last change
	Edge       string // the extractor: the time up to which earlier passes have read, minus the lookback
	Overlooked int64  // the destination: as in [Facts]
	Misplaced  string // the extractor: as in [Facts]
}

// Refuted returns why incremental passes miss changes; "" if nothing shows that they do. One overlooked row is
// enough, because incremental passes may have missed other rows too.
func (c Changes) Refuted() string {
	switch {
	case c.Overlooked > 0:
		return fmt.Sprintf("%s new or changed although %s is before %s, and earlier passes have read all changes up to that time", were(c.Overlooked), c.Field, c.Edge)
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
