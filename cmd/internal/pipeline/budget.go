package pipeline

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// Budget limits the memory of records that are read and not yet committed, in bytes. The limit applies to all streams
// of all runs that share the Budget. // Invariant 6
//
// When the budget is used up, a stream first starts the commit of the records that it has gathered. Then it waits. So
// a waiting stream holds only memory that is being committed.
type Budget struct {
	sem  *semaphore.Weighted
	size int64
}

// NewBudget returns a budget of the given number of bytes.
func NewBudget(size int64) *Budget {
	return &Budget{sem: semaphore.NewWeighted(size), size: size}
}

// cost returns the bytes to reserve for a page of n bytes. A page that is larger than the whole budget takes all of
// it.
func (b *Budget) cost(n int) int64 { return min(int64(n), b.size) }

func (b *Budget) try(cost int64) bool { return b.sem.TryAcquire(cost) }

func (b *Budget) wait(ctx context.Context, cost int64) error { return b.sem.Acquire(ctx, cost) }

func (b *Budget) release(cost int64) { b.sem.Release(cost) }
