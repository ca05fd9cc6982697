package parquet

import "time"

// With a catalog, the newest thinNewest generations stay listed. Of the older ones, one stays for each of thinParts
// parts of the retention time. Without this limit, a day of webhooks could make ten thousand generations, and every
// commit would write all of them to the manifest.
const (
	thinNewest = 64
	thinParts  = 64
)

// expired returns the generations that stay listed. The oldest generation always stays. Only the oldest listed
// generation determines which files are removed, so the files of an omitted generation stay too. A reader of such a
// generation can finish.
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
