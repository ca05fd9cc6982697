package retry

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWait(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		policy Policy
		want   []time.Duration
	}{
		{Policy{First: s, Longest: 7 * s}, []time.Duration{s, 2 * s, 4 * s, 7 * s, 7 * s}},
		{Policy{First: s, Growth: 4, Longest: time.Minute}, []time.Duration{s, 4 * s, 16 * s, time.Minute}},
		{Policy{First: s}, []time.Duration{s, s, s}},
		{Policy{First: 3 * s, Longest: s}, []time.Duration{s, s}},
		{Policy{}, []time.Duration{0, 0}},
	} {
		for i, want := range c.want {
			require.Equal(t, want, c.policy.Wait(i+1), "%+v", c.policy)
		}
		require.Equal(t, c.want[len(c.want)-1], c.policy.Wait(1000), "%+v", c.policy)
	}
}

func TestJitter(t *testing.T) {
	p := Policy{First: time.Second, Jitter: 0.5}
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := p.Wait(1)
		require.GreaterOrEqual(t, d, time.Second/2)
		require.LessOrEqual(t, d, time.Second)
		seen[d] = true
	}
	require.Greater(t, len(seen), 900)
}

func TestAgain(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		policy   Policy
		attempts int
		took     time.Duration
	}{
		"attempts":                              {Policy{First: s, Longest: time.Minute, Attempts: 4}, 4, 7 * s},
		"the total time shortens the last wait": {Policy{First: s, Longest: time.Minute, Total: 10 * s}, 5, 10 * s},
		"a negative time allows no waiting":     {Policy{First: s, Total: -1}, 1, 0},
		"no waits":                              {Policy{Attempts: 3}, 3, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, tries := time.Now(), c.policy.Begin()
				for tries.Again(t.Context()) {
				}
				require.Equal(t, c.attempts, tries.Made())
				require.Equal(t, c.took, time.Since(begun))
			})
		})
	}
}

func TestExclude(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, tries := time.Now(), Policy{First: time.Second, Total: 3 * time.Second}.Begin()
		time.Sleep(time.Minute)
		tries.Exclude(time.Minute)
		for tries.Again(t.Context()) {
		}
		require.Equal(t, time.Minute+3*time.Second, time.Since(begun))
	})
}

func TestContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
		defer cancel()
		begun, tries := time.Now(), Policy{First: time.Minute}.Begin()
		require.True(t, tries.Again(ctx))
		require.False(t, tries.Again(ctx))
		require.Equal(t, 90*time.Second, time.Since(begun))
		require.False(t, Policy{}.Begin().Again(ctx), "Again returns false if the context has ended, even if it need not wait")
	})
}
