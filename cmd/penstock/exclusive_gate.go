package main

import (
	"sync"
	"time"
)

// exclusiveGate limits which units run at the same time in this process. A unit that may have crashed an
// earlier process runs alone. The zero value is an empty gate.
type exclusiveGate struct {
	mu     sync.Mutex
	others int
	taken  bool      // by a unit that runs alone
	wanted time.Time // when a unit began to wait to run alone; zero if none waits
}

// gatePatience is how long other units may still start while a unit waits to run alone.
const gatePatience = time.Minute

// enter admits a unit beside others, or returns false if it must wait.
func (q *exclusiveGate) enter() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.taken || !q.wanted.IsZero() && time.Since(q.wanted) > gatePatience {
		return false
	}
	q.others++
	return true
}

// leave removes a unit that enter admitted.
func (q *exclusiveGate) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.others--; q.others == 0 {
		q.wanted = time.Time{}
	}
}

// clear takes the gate for one unit if the gate is empty. If not, enter admits no more units after
// gatePatience, so that the gate becomes empty.
func (q *exclusiveGate) clear() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.taken || q.others > 0 {
		if q.wanted.IsZero() {
			q.wanted = time.Now()
		}
		return false
	}
	q.taken, q.wanted = true, time.Time{}
	return true
}

// open ends what clear began.
func (q *exclusiveGate) open() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = false
}
