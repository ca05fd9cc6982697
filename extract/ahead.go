package extract

import (
	"context"
	"sync"
)

// ahead fetches what will be needed next while the present page is worked on.
// Answers come out in the order in which they were asked for. Its methods are
// called from one goroutine, which must call stop before it goes.
type ahead[K comparable] struct {
	c     *Client
	fetch func(ctx context.Context, k K) (*answer, error)
	queue []*pending[K]
	size  int64 // what the last body took: the guess for the next
	wg    sync.WaitGroup
}

// pending is one answer that is on its way.
type pending[K comparable] struct {
	key    K
	cancel context.CancelFunc
	done   chan struct{}
	guess  int64

	a   *answer
	err error
}

// take waits for the answer to k. Whatever was fetched before it in vain is
// dropped.
func (q *ahead[K]) take(ctx context.Context, k K) (*answer, error) {
	for len(q.queue) > 0 && q.queue[0].key != k {
		q.drop(0)
	}
	if len(q.queue) == 0 {
		q.start(ctx, k)
	}
	p := q.queue[0]
	<-p.done // ends with ctx at the latest: the request does
	q.queue = q.queue[1:]
	p.cancel()
	q.c.inFlight.Add(-p.guess)
	if p.err == nil {
		q.size = p.a.bytes
	}
	return p.a, p.err
}

// put makes a the answer to k, which was fetched another way, the next to be
// taken.
func (q *ahead[K]) put(k K, a *answer) {
	p := &pending[K]{key: k, cancel: func() {}, done: make(chan struct{}), a: a}
	close(p.done)
	q.queue = append([]*pending[K]{p}, q.queue...)
}

// fill starts fetching k and what follows it, as far as that is known and there
// is room: so many requests, and so many bytes of bodies, over all streams. The
// next page itself is always fetched. // Invariant 6
func (q *ahead[K]) fill(ctx context.Context, k K, following func(K) (K, bool)) {
	for i := 0; i < q.c.parallel; i++ {
		if i < len(q.queue) && q.queue[i].key != k {
			for len(q.queue) > i {
				q.drop(i)
			}
		}
		if i == len(q.queue) {
			if i > 0 && q.c.inFlight.Load()+q.size > q.c.maxBytes {
				return
			}
			q.start(ctx, k)
		}
		var ok bool
		if k, ok = following(k); !ok {
			return
		}
	}
}

func (q *ahead[K]) start(ctx context.Context, k K) {
	ctx, cancel := context.WithCancel(ctx)
	p := &pending[K]{key: k, cancel: cancel, done: make(chan struct{}), guess: q.size}
	q.c.inFlight.Add(p.guess)
	q.queue = append(q.queue, p)
	q.wg.Go(func() {
		defer close(p.done)
		p.a, p.err = q.fetch(ctx, k)
	})
}

// drop gives up the i-th answer.
func (q *ahead[K]) drop(i int) {
	p := q.queue[i]
	p.cancel()
	<-p.done
	q.c.inFlight.Add(-p.guess)
	q.c.release(p.a)
	q.queue = append(q.queue[:i], q.queue[i+1:]...)
}

// reset gives up what was fetched so far.
func (q *ahead[K]) reset() {
	for len(q.queue) > 0 {
		q.drop(0)
	}
}

// stop gives up everything and waits until no request is left. // Invariant 15
func (q *ahead[K]) stop() {
	for _, p := range q.queue {
		p.cancel()
	}
	for len(q.queue) > 0 {
		q.drop(0)
	}
	q.wg.Wait()
}
