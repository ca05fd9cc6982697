package parquet

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Commits are made at random intervals. The manifest must list few generations. It must list all of the newest ones,
// and the oldest one until the retention time is over.
func TestExpired(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const keepFor = 24 * time.Hour
		now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
		var kept []generation
		made := 0
		for range rapid.IntRange(1, 6).Draw(t, "phases") {
			apart := time.Duration(rapid.IntRange(1, 4000).Draw(t, "seconds apart")) * time.Second
			for range rapid.IntRange(1, 300).Draw(t, "commits") {
				now = now.Add(apart)
				made++
				kept = append(kept, generation{Sequence: int64(made), At: now})
				for len(kept) > 3 && now.Sub(kept[1].At) >= keepFor {
					kept = kept[1:]
				}
				first := kept[0]
				kept = expired(kept, keepFor)
				if kept[0] != first {
					t.Fatalf("the oldest generation is left out: %v", first)
				}
				if len(kept) > thinNewest+thinParts+2 {
					t.Fatalf("%d generations are kept", len(kept))
				}
			}
		}
		for i := range min(thinNewest, made, len(kept)) {
			if got := kept[len(kept)-1-i].Sequence; now.Sub(kept[len(kept)-1-i].At) < keepFor && got != int64(made-i) {
				t.Fatalf("one of the newest generations is left out: %d", made-i)
			}
		}
	})
}

func TestExpiredKeepsFew(t *testing.T) {
	all := []generation{{Sequence: 1}, {Sequence: 2}, {Sequence: 3}}
	require.Equal(t, all, expired(all, -1))
	require.Empty(t, expired(nil, time.Hour))
}
