package pipeline

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// Budget bounds the bytes of records that are between their page and their
// commit, over all streams of the runs that share it. // Invariant 6
//
// A stream that cannot have more hands over what it has gathered before it
// waits, so that whoever waits holds nothing but what is being committed.
type Budget struct {
	sem  *semaphore.Weighted
	size int64
}

// NewBudget is a budget of so many bytes.
func NewBudget(size int64) *Budget {
	return &Budget{sem: semaphore.NewWeighted(size), size: size}
}

// cost is what n bytes take: a page larger than the whole budget takes all.
func (b *Budget) cost(n int) int64 { return min(int64(n), b.size) }

func (b *Budget) try(cost int64) bool { return b.sem.TryAcquire(cost) }

func (b *Budget) wait(ctx context.Context, cost int64) error { return b.sem.Acquire(ctx, cost) }

func (b *Budget) release(cost int64) { b.sem.Release(cost) }
