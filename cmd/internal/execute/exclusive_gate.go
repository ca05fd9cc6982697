package execute

import (
	"sync"
	"time"
)

// exclusiveGate limits which units run at the same time in this process. If an earlier process may have crashed
// because of a unit, this unit runs alone. The zero value is an empty gate.
type exclusiveGate struct {
	mu      sync.Mutex
	running int
	alone   bool      // a unit runs alone
	wanted  time.Time // when a unit began to wait to run alone; zero if none waits
}

// gatePatience is how long other units may still start while a unit waits to run alone.
const gatePatience = time.Minute

// enter admits a unit that may run beside other units. It returns false if the unit must wait.
func (q *exclusiveGate) enter() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.alone || !q.wanted.IsZero() && time.Since(q.wanted) > gatePatience {
		return false
	}
	q.running++
	return true
}

// leave removes a unit that enter() has admitted.
func (q *exclusiveGate) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.running--; q.running == 0 {
		q.wanted = time.Time{}
	}
}

// enterAlone admits a unit that must run alone, if no unit runs. Otherwise it returns false. After the unit has waited
// for the time gatePatience, enter() admits no more units, so that the gate becomes empty.
func (q *exclusiveGate) enterAlone() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.alone || q.running > 0 {
		if q.wanted.IsZero() {
			q.wanted = time.Now()
		}
		return false
	}
	q.alone, q.wanted = true, time.Time{}
	return true
}

// leaveAlone removes the unit that enterAlone admitted.
func (q *exclusiveGate) leaveAlone() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.alone = false
}
