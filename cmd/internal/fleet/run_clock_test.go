package fleet

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// If the process is paused, its clock counts at most a step.
func TestRunClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const step = 100 * time.Millisecond
		c := &runClock{step: step}
		var lock sync.Mutex
		at := func() time.Duration {
			lock.Lock()
			defer lock.Unlock()
			return c.now()
		}
		c.start(&lock)
		time.Sleep(10*step + step/2)
		require.Equal(t, 10*step+step/2, at())
		lock.Lock() // the clock cannot tick, as in a paused process
		c.last = c.last.Add(-time.Minute)
		lock.Unlock()
		require.Equal(t, 11*step, at())
		time.Sleep(step / 2)
		synctest.Wait()
		time.Sleep(step)
		require.Equal(t, 12*step, at())
		c.stop()
		synctest.Wait()
		time.Sleep(time.Hour)
		require.Equal(t, 12*step, at()-step, "a clock that does not tick stands still")
	})
}
