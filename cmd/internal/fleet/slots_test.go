package fleet_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/fleet"
)

type call struct {
	name  string
	do    workspace
	round int
}

// calls is a queue. A job that is put off returns to it after a pause.
type calls struct {
	mu    sync.Mutex
	ready []*call
	left  int
}

func (q *calls) next() *call {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.ready) == 0 {
		return nil
	}
	c := q.ready[0]
	q.ready = q.ready[1:]
	return c
}

func (q *calls) add(c *call) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ready = append(q.ready, c)
}

func called(t *testing.T, trouble ...string) (c jobSet) {
	c.ends, c.tries = map[string]int{}, map[string]int{}
	synctest.Test(t, func(t *testing.T) {
		const width = 8
		began, at, q := time.Now(), 0, &calls{}
		for i := range 1000 {
			q.ready = append(q.ready, &call{name: "sound", do: sound})
			if len(trouble) > 0 {
				name := trouble[i%len(trouble)]
				q.ready = append(q.ready, &call{name: name, do: troubles[name]})
			}
		}
		rand.New(rand.NewPCG(7, 7)).Shuffle(len(q.ready), func(i, j int) { q.ready[i], q.ready[j] = q.ready[j], q.ready[i] })
		q.left = len(q.ready)
		places := fleet.NewSlots(fleet.Pool{Width: width})
		attempt := func(one *call, p *fleet.Slot) {
			defer p.Leave()
			q.mu.Lock()
			at++
			c.tries[one.name]++
			c.most = max(c.most, at)
			q.mu.Unlock()
			ctx, end := p.StartWait(t.Context(), one.round)
			one.do(ctx, p.RecordAnswer)
			round, off := end()
			q.mu.Lock()
			defer q.mu.Unlock()
			at--
			if off {
				one.round = round
				time.AfterFunc(10*time.Second, func() { q.add(one) })
				return
			}
			c.ends[one.name]++
			q.left--
			if one.name == "sound" {
				c.sound = max(c.sound, time.Since(began))
			}
		}
		var slots sync.WaitGroup
		for range width {
			slots.Go(func() {
				for left := true; left; {
					one := q.next()
					if one == nil {
						time.Sleep(100 * time.Millisecond)
					} else if p := places.Acquire(t.Context()); p == nil {
						q.add(one)
					} else {
						done := make(chan struct{})
						go func() {
							defer close(done)
							attempt(one, p)
						}()
						p.Wait(done)
					}
					q.mu.Lock()
					left = q.left > 0
					q.mu.Unlock()
				}
			})
		}
		slots.Wait()
		require.NoError(t, places.Drain(t.Context()))
		c.whole = time.Since(began)
	})
	return c
}

func TestSlotsThousands(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	alone := called(t)
	for _, mix := range [][]string{{"hangs"}, {"fails", "hangs", "hangs", "hangs in the middle", "is slow", "is parked"}} {
		c := called(t, mix...)
		t.Logf("%q: sound %s of %s, whole %s, %d at once, tries %v", mix, c.sound, alone.sound, c.whole, c.most, c.tries)
		require.LessOrEqual(t, c.sound, alone.sound+alone.sound/10, "%q", mix)
		require.LessOrEqual(t, c.most, 4*fleet.DefaultWidth)
		require.Equal(t, 1000, c.tries["sound"], "a source that answers is never put off")
		for _, name := range mix {
			require.LessOrEqual(t, c.tries[name], 3*c.ends[name], name)
		}
		require.Equal(t, 2000, sum(c.ends), "every job ends")
	}
}

func TestSlotsPutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ps := fleet.NewSlots(fleet.Pool{Width: 1, Most: 2})
		var ended []string
		hang := func(name string, round int) (*fleet.Slot, chan struct{}) {
			p := ps.Acquire(t.Context())
			for tries := 0; p == nil && tries < 3; tries++ { // while no source has answered, jobs may wait longer
				p = ps.Acquire(t.Context())
			}
			require.NotNil(t, p, name)
			ctx, end := p.StartWait(t.Context(), round)
			done := make(chan struct{})
			go func() {
				defer close(done)
				sleep(ctx, time.Hour)
				round, off := end()
				ended = append(ended, fmt.Sprint(name, " ", round, " ", off, " ", context.Cause(ctx) == fleet.ErrPutOff))
				p.Leave()
			}()
			return p, done
		}
		a, adone := hang("a", 0)
		require.False(t, a.Wait(adone), "the job waits, and another job may take its slot")
		b, bdone := hang("b", 2)
		require.False(t, b.Wait(bdone))
		c, cdone := hang("c", 0)
		<-adone
		require.Equal(t, []string{"a 2 true true"}, ended, "b was in the last round")
		require.False(t, c.Wait(cdone))
		d, ddone := hang("d", 2)
		<-cdone
		require.False(t, d.Wait(ddone))
		require.Nil(t, ps.Acquire(t.Context()), "no job may be put off")
		<-bdone
		<-ddone
		require.NoError(t, ps.Drain(t.Context()))
	})
}

// InUse counts the slots of jobs that have not left.
func TestSlotsInUse(t *testing.T) {
	s := fleet.NewSlots(fleet.Pool{Width: 2})
	require.Equal(t, []int{2, 0}, []int{s.Width(), s.InUse()})
	one, other := s.Acquire(t.Context()), s.Acquire(t.Context())
	require.Equal(t, 2, s.InUse())
	one.Leave()
	require.Equal(t, 1, s.InUse())
	other.Leave()
	require.Zero(t, s.InUse())
}
