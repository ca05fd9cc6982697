package pipeline

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// budget bounds the bytes of records that are between their page and their
// commit, over all streams of a run. // Invariant 6
//
// A stream that cannot have more hands over what it has gathered before it
// waits, so that whoever waits holds nothing but what is being committed.
type budget struct {
	sem  *semaphore.Weighted
	size int64
}

func newBudget(size int64) *budget {
	return &budget{sem: semaphore.NewWeighted(size), size: size}
}

// cost is what n bytes take: a page larger than the whole budget takes all.
func (b *budget) cost(n int) int64 { return min(int64(n), b.size) }

func (b *budget) try(cost int64) bool { return b.sem.TryAcquire(cost) }

func (b *budget) wait(ctx context.Context, cost int64) error { return b.sem.Acquire(ctx, cost) }

func (b *budget) release(cost int64) { b.sem.Release(cost) }
