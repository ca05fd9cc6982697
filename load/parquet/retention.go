package parquet

import "time"

// Of the generations that a catalog is told of, the newest all stay, and of those
// before them one in so many parts of the time that they are kept: each commit
// writes down all that there are, and after a day of webhooks there could be ten
// thousand.
const (
	thinNewest = 64
	thinParts  = 64
)

// expired leaves out generations so that few are left, the first among them. No file
// goes for that: what is removed is told by the oldest, and who reads one that is
// left out here reads it to its end.
func expired(all []generation, keepFor time.Duration) []generation {
	part := max(keepFor/thinParts, time.Second)
	var out []generation
	last := time.Time{}
	for i, g := range all {
		at := g.At.Truncate(part)
		if i > 0 && i < len(all)-thinNewest && at.Equal(last) {
			continue
		}
		out, last = append(out, g), at
	}
	return out
}
