package loadtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// testPaged compares the outcome of each transaction with that of [Memory].
func testPaged(t *testing.T, d Driver) {
	for _, mode := range modes {
		for seed := range seeds(2) {
			t.Run(fmt.Sprint(mode, seed), func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 1))
				f := newFamily(mode, true)
				b, reference := newFixture(t, d), newFixture(t, memoryDriver())
				var played []step
				for run := 1; run <= d.runs(5); run++ {
					pages := somePages(r)
					for i, page := range pages {
						last := i == len(pages)-1
						s := step{run: run, rows: page, sweep: last && r.IntN(5) > 0, again: i > 0 && r.IntN(12) == 0}
						played = append(played, s)
						want, got := reference.play(f, s), b.play(f, s)
						require.Equal(t, comparable(mode, want), comparable(mode, got), "%+v", played)
						require.Equal(t, reference.content(f), b.content(f), "%+v", played)
					}
				}
				b.chronological(f)
			})
		}
	}
}

func somePages(r *rand.Rand) []string {
	var list []string
	for id := 1; id <= 20; id++ {
		if r.IntN(8) > 0 {
			list = append(list, fmt.Sprintf("%d:%c", id, "aaaaaaab"[r.IntN(8)]))
		}
	}
	if r.IntN(2) == 0 {
		slices.Reverse(list)
	}
	if n := len(list); r.IntN(4) == 0 {
		list = slices.Insert(list, r.IntN(n), list[r.IntN(n)])
	}
	var pages []string
	for page := range slices.Chunk(list, 4+r.IntN(4)) {
		pages = append(pages, strings.Join(page, " "))
	}
	return pages
}
