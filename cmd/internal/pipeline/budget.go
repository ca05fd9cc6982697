package pipeline

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// Budget limits the bytes of records between their page and their commit, over all streams of the runs that
// share it. // Invariant 6
//
// A stream that gets no more memory hands its gathered records over for commit before it waits. So a waiting
// stream holds only memory that is being committed.
type Budget struct {
	sem  *semaphore.Weighted
	size int64
}

// NewBudget returns a budget of size bytes.
func NewBudget(size int64) *Budget {
	return &Budget{sem: semaphore.NewWeighted(size), size: size}
}

// cost lets a page that is larger than the whole budget take all of it.
func (b *Budget) cost(n int) int64 { return min(int64(n), b.size) }

func (b *Budget) try(cost int64) bool { return b.sem.TryAcquire(cost) }

func (b *Budget) wait(ctx context.Context, cost int64) error { return b.sem.Acquire(ctx, cost) }

func (b *Budget) release(cost int64) { b.sem.Release(cost) }
