// Package retry says how often an operation is attempted, and how long to wait between two attempts.
package retry

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"
)

// Policy says how often an operation is attempted until it succeeds, and how long to wait between two attempts. The
// caller decides which errors allow another attempt.
type Policy struct {
	First   time.Duration // wait after the first attempt
	Growth  int           // factor from each wait to the next; 0: 2
	Longest time.Duration // greatest wait; 0: the waits do not grow, and all are equal to First
	Jitter  float64       // random part of each wait, from 0 to 1: 0.5 means between half of the wait and all of it

	Attempts int           // greatest number of attempts; 0: no limit
	Total    time.Duration // greatest time from Begin to the start of an attempt; 0: no limit; negative: only one attempt // Invariant 15
}

// Wait returns the wait after n attempts.
func (p Policy) Wait(n int) time.Duration {
	limit := cmp.Or(p.Longest, p.First)
	d := min(p.First, limit)
	for i := 1; i < n && d < limit; i++ {
		d = min(d*time.Duration(cmp.Or(p.Growth, 2)), limit)
	}
	if random := time.Duration(p.Jitter * float64(d)); random > 0 {
		d -= rand.N(random + 1)
	}
	return d
}

// Begin starts to count the attempts of one operation, and their time.
func (p Policy) Begin() *Attempts { return &Attempts{policy: p, begun: time.Now()} }

// Attempts are the attempts of one operation. They are not safe for concurrent use.
type Attempts struct {
	policy Policy
	begun  time.Time
	made   int
}

// Made returns how many attempts have failed.
func (a *Attempts) Made() int { return a.made }

// Exclude subtracts d from the time that counts against Policy.Total.
func (a *Attempts) Exclude(d time.Duration) { a.begun = a.begun.Add(d) }

// Again counts a failed attempt, and waits. It reports whether to make another attempt. It returns false if the policy
// allows no other attempt, or if ctx has ended.
func (a *Attempts) Again(ctx context.Context) bool {
	p := a.policy
	a.made++
	if ctx.Err() != nil || p.Attempts > 0 && a.made >= p.Attempts {
		return false
	}
	wait := p.Wait(a.made)
	if p.Total != 0 {
		left := p.Total - time.Since(a.begun)
		if left <= 0 {
			return false
		}
		wait = min(wait, left)
	}
	return Sleep(ctx, wait)
}

// Sleep waits for d. It reports false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
