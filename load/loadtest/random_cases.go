package loadtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func testRandom(t *testing.T, d Driver) {
	for _, mode := range modes {
		for seed := range seeds(3) {
			t.Run(fmt.Sprint(mode, seed), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 0))
				f := newFamily(mode, true)
				b, reference := newFixture(t, d), newFixture(t, memoryDriver())
				b.pass.Log, reference.pass.Log = true, true
				var played []step
				for run := 1; run <= d.runs(6); run++ {
					for n := 1 + r.IntN(3); n > 0; n-- {
						s := step{run: run, rows: someRecords(r), sweep: n == 1 && r.IntN(4) > 0, again: n > 1 && r.IntN(8) == 0}
						played = append(played, s)
						want, got := reference.play(f, s), b.play(f, s)
						require.Equal(t, comparable(mode, want), comparable(mode, got), "%+v", played)
						require.Equal(t, reference.content(f), b.content(f), "%+v", played)
					}
					require.Equal(t, reference.logged(run), b.logged(run), "%+v", played)
				}
				b.chronological(f)
			})
		}
	}
}

// seeds returns the number of random stories: n, or 1 if the tests run with -short.
func seeds(n uint64) uint64 {
	if testing.Short() {
		return 1
	}
	return n
}

// someRecords returns random records. Several of them may have the same key.
func someRecords(r *rand.Rand) string {
	var out []string
	for i := range r.IntN(8) {
		out = append(out, fmt.Sprintf("%d:%c#%d", r.IntN(6), 'a'+r.IntN(2), i*7%8))
	}
	return strings.Join(out, " ")
}
