package extract

import (
	"context"
	"sync"
)

// ahead requests answers in advance and delivers them in the order of the requests. K names one request. One
// goroutine calls all methods. It must call stop at the end.
type ahead[K comparable] struct {
	c     *Client
	fetch func(ctx context.Context, k K) (*answer, error)
	queue []*pending[K]
	size  int64
	wg    sync.WaitGroup
}

type pending[K comparable] struct {
	key    K
	cancel context.CancelFunc
	done   chan struct{}
	guess  int64 // estimated size of the body in bytes, part of Client.inFlight

	a   *answer
	err error
}

func (q *ahead[K]) take(ctx context.Context, k K) (*answer, error) {
	for len(q.queue) > 0 && q.queue[0].key != k {
		q.drop(0)
	}
	if len(q.queue) == 0 {
		q.start(ctx, k)
	}
	p := q.queue[0]
	<-p.done // returns at the latest when ctx ends, because the request does
	q.queue = q.queue[1:]
	p.cancel()
	q.c.inFlight.Add(-p.guess)
	if p.err == nil {
		q.size = p.a.bytes
	}
	return p.a, p.err
}

// put inserts an answer at the head of the queue, so that the next take(k) returns it.
func (q *ahead[K]) put(k K, a *answer) {
	p := &pending[K]{key: k, cancel: func() {}, done: make(chan struct{}), a: a}
	close(p.done)
	q.queue = append([]*pending[K]{p}, q.queue...)
}

// fill requests k, and the answers that follow k. The number of parallel requests is limited. So is the size of the
// bodies of all streams together. Neither limit holds back k. // Invariant 6
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

func (q *ahead[K]) drop(i int) {
	p := q.queue[i]
	p.cancel()
	<-p.done
	q.c.inFlight.Add(-p.guess)
	q.c.release(p.a)
	q.queue = append(q.queue[:i], q.queue[i+1:]...)
}

func (q *ahead[K]) reset() {
	for len(q.queue) > 0 {
		q.drop(0)
	}
}

// stop ends all requests and waits for their goroutines. // Invariant 15
func (q *ahead[K]) stop() {
	for _, p := range q.queue {
		p.cancel()
	}
	for len(q.queue) > 0 {
		q.drop(0)
	}
	q.wg.Wait()
}
