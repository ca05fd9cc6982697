package fleet_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/fleet"
	"github.com/penstock-data/penstock/extract/wire"
)

// sleep waits for the source. It returns true if the job is put off first.
func sleep(ctx context.Context, d time.Duration) bool {
	defer wire.BeginRead(ctx)()
	select {
	case <-time.After(d):
		return false
	case <-ctx.Done():
		return errors.Is(context.Cause(ctx), fleet.ErrPutOff)
	}
}

type workspace func(ctx context.Context, beat func()) (again bool)

func sound(ctx context.Context, beat func()) bool {
	for range 10 {
		if sleep(ctx, 200*time.Millisecond) {
			return true
		}
		beat()
	}
	return false
}

var troubles = map[string]workspace{
	"fails":               func(ctx context.Context, _ func()) bool { return sleep(ctx, 50*time.Millisecond) },
	"fails after a pause": func(ctx context.Context, _ func()) bool { return sleep(ctx, 20*time.Second) },
	"hangs":               func(ctx context.Context, _ func()) bool { return sleep(ctx, 5*time.Minute) },
	"hangs in the middle": func(ctx context.Context, beat func()) bool {
		time.Sleep(200 * time.Millisecond)
		beat()
		return sleep(ctx, 5*time.Minute)
	},
	"is slow": func(ctx context.Context, beat func()) bool {
		if sleep(ctx, 20*time.Second) {
			return true
		}
		return sound(ctx, beat)
	},
	"is parked": func(ctx context.Context, beat func()) bool {
		for range 3 {
			if sleep(ctx, time.Minute) {
				return true
			}
			beat()
		}
		return false
	},
}

type jobSet struct {
	sound, whole time.Duration // time until the last sound source is done, and until all sources are done
	most         int
	ends, tries  map[string]int
}

// together() makes one run over 1,000 sound sources and 1,000 troubled ones, in a random order. If `known` is true, the
// pool knows that the troubled sources were silent the last time.
func together(t *testing.T, p fleet.Pool, known bool, trouble ...string) (c jobSet) {
	c.ends, c.tries = map[string]int{}, map[string]int{}
	synctest.Test(t, func(t *testing.T) {
		began, at, mu := time.Now(), 0, sync.Mutex{}
		add := func(jobs []fleet.Job, name string, do workspace, silent bool) []fleet.Job {
			return append(jobs, fleet.Job{Silent: silent, Run: func(ctx context.Context, beat func()) bool {
				mu.Lock()
				at++
				c.tries[name]++
				c.most = max(c.most, at)
				mu.Unlock()
				again := do(ctx, beat)
				mu.Lock()
				defer mu.Unlock()
				if at--; !again {
					c.ends[name]++
				}
				if name == "sound" {
					c.sound = max(c.sound, time.Since(began))
				}
				return again
			}})
		}
		var jobs []fleet.Job
		for range 1000 {
			jobs = add(jobs, "sound", sound, false)
		}
		for i := range 1000 * min(1, len(trouble)) {
			name := trouble[i%len(trouble)]
			jobs = add(jobs, name, troubles[name], known)
		}
		rand.New(rand.NewPCG(7, 7)).Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
		require.Equal(t, len(jobs), p.Run(t.Context(), jobs))
		c.whole = time.Since(began)
	})
	return c
}

// 1,000 sources with any kind of trouble slow down 1,000 other sources by at most a tenth.
func TestPoolThousands(t *testing.T) {
	alone := together(t, fleet.Pool{}, false)
	all := slices.Sorted(func(yield func(string) bool) {
		for name := range troubles {
			if !yield(name) {
				return
			}
		}
	})
	mixes := [][]string{all, {"hangs"}, {"fails"}, {"fails", "hangs"}, {"fails after a pause"}, {"is slow"}, {"fails", "hangs", "hangs", "hangs in the middle"}}
	if testing.Short() {
		mixes = mixes[:2]
	}
	for _, mix := range mixes {
		for _, known := range []bool{false, true} {
			c := together(t, fleet.Pool{}, known, mix...)
			require.LessOrEqual(t, c.sound, alone.sound+alone.sound/10, "the sound sources took %s alone, but beside %q (known: %t) they took %s", alone.sound, mix, known, c.sound)
			require.LessOrEqual(t, c.most, 4*fleet.DefaultWidth)
			require.Equal(t, 1000, c.ends["sound"])
			require.Equal(t, 1000, c.tries["sound"], "a source that answers is never put off")
			for _, name := range mix {
				require.LessOrEqual(t, c.tries[name], 3*c.ends[name], name)
			}
			require.Equal(t, 1000, sum(c.ends)-c.ends["sound"], "every job ends")
			t.Logf("%q, known: %t: sound %s of %s, whole %s, %d at once, tries %v", mix, known, c.sound, alone.sound, c.whole, c.most, c.tries)
		}
	}
}

func sum(all map[string]int) (n int) {
	for _, one := range all {
		n += one
	}
	return n
}
