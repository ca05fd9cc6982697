package fleet

import (
	"sync"
	"time"
)

// runClock measures the time in which this process runs. Each step of it lasts at least as long by the real clock. If
// the process gets no processor time, a step lasts longer, so the clock is slow. Answers that have arrived meanwhile are
// not late then.
type runClock struct {
	step  time.Duration
	time  time.Duration // at the last tick
	last  time.Time     // of the last tick
	ended chan struct{}
}

// now returns the time by this clock. The caller must hold the lock that start() got.
func (c *runClock) now() time.Duration { return c.time + min(time.Since(c.last), c.step) }

// start lets the clock tick until stop() is called. Each tick takes the lock.
func (c *runClock) start(lock sync.Locker) {
	lock.Lock()
	defer lock.Unlock()
	ended := make(chan struct{})
	c.last, c.ended = time.Now(), ended
	go func() {
		tick := time.NewTicker(c.step)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
			lock.Lock()
			c.tick()
			lock.Unlock()
		}
	}()
}

func (c *runClock) tick() { c.time, c.last = c.now(), time.Now() }

// stop ends the ticks.
func (c *runClock) stop() { close(c.ended) }
