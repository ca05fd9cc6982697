package parquet

import "time"

// In a catalog, the newest thinNewest generations stay listed, and one older generation for each of thinParts
// parts of the retention time. Without this limit, a day of webhooks could make ten thousand generations, and
// every commit would write all of them to the manifest.
const (
	thinNewest = 64
	thinParts  = 64
)

// expired returns the generations that stay listed, always including the first. The files of an omitted
// generation stay, because only the oldest listed generation determines which files are removed. So a reader
// of an omitted generation can finish.
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
