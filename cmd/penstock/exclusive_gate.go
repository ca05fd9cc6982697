package main

import (
	"sync"
	"time"
)

// exclusiveGate are a process as those share it who work on units. A unit that may be what
// ends the process has them alone. The zero value is empty.
type exclusiveGate struct {
	mu     sync.Mutex
	others int
	taken  bool      // by one alone
	wanted time.Time // by one alone, since; zero: by none
}

// quartersPatience is how long new work may still start before a unit that wants the gate for itself.
const quartersPatience = time.Minute

// enter takes a place beside others, or reports that there is none for now.
func (q *exclusiveGate) enter() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.taken || !q.wanted.IsZero() && time.Since(q.wanted) > quartersPatience {
		return false
	}
	q.others++
	return true
}

// leave gives the place back.
func (q *exclusiveGate) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.others--; q.others == 0 {
		q.wanted = time.Time{}
	}
}

// clear takes the gate for one unit if it is empty. If not, they will be: after a
// while nobody enters before they were.
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

// open gives them back to all.
func (q *exclusiveGate) open() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = false
}
