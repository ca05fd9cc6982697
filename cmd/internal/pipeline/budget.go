package pipeline

import (
	"context"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/semaphore"
)

// Budget limits the memory of records that are read and not yet committed, in bytes. The limit applies to all streams
// of all runs that share the Budget. // Invariant 6
//
// When the budget is used up, a stream first starts the commit of the records that it has gathered. Then it waits. So
// a waiting stream holds only memory that is being committed. The queues of settlements start their commits then: their
// streams hold bytes too.
type Budget struct {
	sem  *semaphore.Weighted
	size int64

	mu      sync.Mutex
	waiting int                       // streams that wait for bytes
	queues  map[*settleQueue]struct{} // queues of the runs that share the budget
}

// NewBudget returns a budget of the given number of bytes.
func NewBudget(size int64) *Budget {
	return &Budget{sem: semaphore.NewWeighted(size), size: size, queues: map[*settleQueue]struct{}{}}
}

// cost returns the bytes to reserve for a page of n bytes. A page that is larger than the whole budget takes all of
// it.
func (b *Budget) cost(n int) int64 { return min(int64(n), b.size) }

func (b *Budget) try(cost int64) bool { return b.sem.TryAcquire(cost) }

// wait reserves bytes, and waits until they are free. // Invariant 15: the queues start their commits, which free bytes
func (b *Budget) wait(ctx context.Context, cost int64) error {
	for _, q := range b.count(1) {
		q.press()
	}
	defer b.count(-1)
	return b.sem.Acquire(ctx, cost)
}

// count adds to the number of streams that wait, and returns the queues.
func (b *Budget) count(more int) []*settleQueue {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting += more
	return slices.Collect(maps.Keys(b.queues))
}

// short reports whether a stream waits for bytes.
func (b *Budget) short() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting > 0
}

// join adds a queue, until leave is called.
func (b *Budget) join(q *settleQueue) (leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queues[q] = struct{}{}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.queues, q)
	}
}

func (b *Budget) release(cost int64) { b.sem.Release(cost) }
