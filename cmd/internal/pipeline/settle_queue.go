package pipeline

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/penstock-data/penstock/load"
)

// settleQueue collects settlements, so that one transaction commits many of them. A settlement is the commit of a pass
// that has changed no rows. The queue commits when no stream of the run is being read, when a stream waits for bytes of
// the budget, and at the latest after settleAge.
type settleQueue struct {
	ctx     context.Context
	budget  *Budget
	workers *semaphore.Weighted
	commits sync.WaitGroup

	mu      sync.Mutex
	reading int // streams that have a worker slot
	waiting []*waiting
	running map[*surveyedDestination]int // commits that run
	idle    *time.Timer                  // starts a commit after settleIdle if no stream is being read then; nil: not set
	aged    *time.Timer                  // starts a commit after settleAge; nil: not set
}

const (
	settleAge  = 5 * time.Second
	settleIdle = 20 * time.Millisecond // wait this long after the last stream was read: another stream may be about to begin
)

// waiting is a settlement in the queue.
type waiting struct {
	load.Settlement
	to   *surveyedDestination
	done chan error
}

// release releases the rows.
func (w *waiting) release() {
	for _, r := range w.Rows {
		r.Batch.Release()
	}
}

// newSettleQueue returns a queue for a run with this number of workers. Its commits use ctx.
func newSettleQueue(ctx context.Context, workers int, budget *Budget) *settleQueue {
	return &settleQueue{ctx: ctx, budget: budget, workers: semaphore.NewWeighted(int64(workers)), running: map[*surveyedDestination]int{}}
}

// slot is the worker slot of a stream.
type slot struct {
	queue *settleQueue
	ended func() // lets streams that wait for this stream begin

	mu       sync.Mutex
	held     bool
	finished map[string]bool // destinations in which only the commit of the stream's last pass is left
}

// slot takes a worker slot. If ctx ends before a worker slot is free, the returned slot is empty.
func (q *settleQueue) slot(ctx context.Context, ended func()) *slot {
	s := &slot{queue: q, ended: ended, finished: map[string]bool{}}
	s.take(ctx)
	return s
}

// finish() records that in this destination only the commit of the stream's last pass is left. After finish() was
// called for all destinations, streams that wait for this stream begin. So one transaction can commit a stream and its
// child streams.
func (s *slot) finish(destination string, destinations int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.finished[destination] = true; len(s.finished) == destinations {
		s.ended()
	}
}

// unfinish records that the commit has failed, so that the stream may be read again for the destination. Streams that
// have already begun because of a call of finish() continue.
func (s *slot) unfinish(destination string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.finished, destination)
}

// take waits for a worker slot, unless the stream has one. The stream must hold no bytes of the budget: streams with
// slots may wait for these bytes. // Invariant 15
func (s *slot) take(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.held && s.queue.workers.Acquire(ctx, 1) == nil {
		s.held = true
		s.queue.count(1)
	}
}

// leave gives the slot back.
func (s *slot) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held {
		s.held = false
		s.queue.workers.Release(1)
		s.queue.count(-1)
	}
}

// count adds to the number of streams that are being read.
func (q *settleQueue) count(more int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.reading += more
	q.arm()
}

// arm sets the timers. The caller holds q.mu.
func (q *settleQueue) arm() {
	if len(q.waiting) == 0 {
		return
	}
	if q.reading == 0 && q.idle == nil {
		q.idle = time.AfterFunc(settleIdle, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.idle = nil
			if q.reading == 0 {
				q.flush(q.ready)
			}
		})
	}
	if q.aged == nil {
		q.aged = time.AfterFunc(settleAge, func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.aged = nil
			q.flush(func(*surveyedDestination) bool { return true })
		})
	}
}

// press starts to commit the waiting settlements, because a stream waits for bytes.
func (q *settleQueue) press() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.flush(q.ready)
}

// ready reports whether no commit to a destination runs. While one runs, the settlements for this destination gather for
// the next commit. The caller holds q.mu.
func (q *settleQueue) ready(to *surveyedDestination) bool { return q.running[to] == 0 }

// flush starts to commit the waiting settlements, in one transaction per destination, for the destinations that are
// ready. The caller holds q.mu.
func (q *settleQueue) flush(ready func(*surveyedDestination) bool) {
	all := map[*surveyedDestination][]*waiting{}
	q.waiting = slices.DeleteFunc(q.waiting, func(w *waiting) bool {
		if ready(w.to) {
			all[w.to] = append(all[w.to], w)
		}
		return ready(w.to)
	})
	if len(q.waiting) == 0 && q.aged != nil {
		q.aged.Stop()
		q.aged = nil
	}
	for to, group := range all {
		q.running[to]++
		q.commits.Go(func() {
			q.commit(to, group)
			q.mu.Lock()
			q.running[to]--
			q.arm()
			q.mu.Unlock()
			if q.budget.short() { // a stream that began to wait before running[to] was 0 has started no commit
				q.press()
			}
		})
	}
}

// commit commits the settlements in one transaction.
func (q *settleQueue) commit(to *surveyedDestination, group []*waiting) {
	settlements := make([]load.Settlement, len(group))
	for i, w := range group {
		settlements[i] = w.Settlement
	}
	errs := make([]error, len(group))
	if err := Guard("settle", func() error { errs = to.by.Settle(q.ctx, settlements); return nil }); err != nil {
		for i := range errs {
			errs[i] = err
		}
	}
	for i, w := range group {
		w.release()
		w.done <- errs[i]
	}
}

// settle queues a settlement, and returns when the commit that includes it has ended or ctx is done. It gives the slot
// of the stream back, so that another stream can be read meanwhile. The next pass of the stream takes a slot again.
func (q *settleQueue) settle(ctx context.Context, s *slot, to *surveyedDestination, of load.Settlement) error {
	w := &waiting{Settlement: of, to: to, done: make(chan error, 1)}
	for _, r := range of.Rows {
		r.Batch.Retain()
	}
	q.mu.Lock()
	q.waiting = append(q.waiting, w)
	q.arm()
	q.mu.Unlock()
	if q.budget.short() {
		q.press()
	}
	s.leave()
	select {
	case err := <-w.done: // Invariant 15: a flush follows within settleAge, and its commit ends with q.ctx
		return err
	case <-ctx.Done():
		q.withdraw(w)
		return ctx.Err() // if the commit has begun, its outcome is unknown
	}
}

// withdraw removes a settlement whose commit has not begun.
func (q *settleQueue) withdraw(w *waiting) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, w); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		w.release()
	}
}
