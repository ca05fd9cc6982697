package extract

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/penstock-data/penstock/schemas"
)

// ahead requests answers in advance and delivers them in the order of the requests. K identifies one request. One
// goroutine calls all methods, and must call stop() at the end.
type ahead[K comparable] struct {
	c     *Client
	s     schemas.Stream
	fetch fetcher[K]

	// following() returns the request that comes after k. The argument i is the index of k in the queue. If the next
	// request is not known yet, ok is false.
	following func(i int, k K) (next K, ok bool)

	// early returns the answer to k if an earlier request has brought it, and nil otherwise. The field may be nil.
	early func(k K) *answer

	// apart makes requests in an order of its own. The field may be nil.
	apart apart[K]

	queue    []*pending[K]
	answered chan struct{} // receives when a request of the client has been answered
	size     int64
	wg       sync.WaitGroup
}

// apart is the interface of code that makes requests in advance, in an order of its own: see segmented.
type apart[K comparable] interface {
	// has(k) reports whether k was requested. If it was, pending(k) returns the request. When the answer has arrived,
	// used(k) reports whether it can be used. If it cannot, k is requested again.
	has(k K) bool
	pending(k K) *pending[K]
	used(k K) bool

	// extend() makes further requests. stop() ends all requests.
	extend(ctx context.Context)
	stop()
}

type pending[K comparable] struct {
	key    K
	cancel context.CancelFunc
	done   chan struct{}
	bytes  int64       // size of the body, counted in Client.inFlight; an estimate until the answer arrives
	needed atomic.Bool // take() waits for this answer
	shed   bool        // the body is too large to be read in advance
	apart  bool        // it is a request of ahead.apart

	a   *answer
	err error
}

// take returns the answer to k. While it waits, it requests further answers in advance whenever an answer arrives.
func (q *ahead[K]) take(ctx context.Context, k K) (*answer, error) {
	for len(q.queue) > 0 && q.queue[0].key != k {
		q.drop(0)
	}
	if len(q.queue) == 0 && q.apart != nil && q.apart.has(k) {
		q.queue = append(q.queue, q.apart.pending(k))
	} else if len(q.queue) == 0 {
		q.start(ctx, k)
	}
	p := q.queue[0]
	q.await(ctx, p)
	if p.apart && !q.apart.used(k) || p.shed && p.err != nil {
		rest := q.queue[1:]
		q.discard(p)
		q.queue = nil
		q.start(ctx, k)
		p = q.queue[0]
		q.queue = append(q.queue, rest...)
		q.await(ctx, p)
	}
	q.queue = q.queue[1:]
	p.cancel()
	q.c.inFlight.Add(-p.bytes)
	if p.err == nil {
		q.size = p.a.bytes
	}
	return p.a, p.err
}

// await returns when p is done. If ctx ends, the request ends too, and so p is done.
func (q *ahead[K]) await(ctx context.Context, p *pending[K]) {
	p.needed.Store(true)
	for {
		select {
		case <-p.done:
			return
		case <-q.answered:
			q.extend(ctx)
		}
	}
}

// put inserts an answer at the head of the queue, so that the next take(k) returns it.
func (q *ahead[K]) put(k K, a *answer) {
	p := answeredAlready(k, a)
	q.c.inFlight.Add(p.bytes)
	q.queue = append([]*pending[K]{p}, q.queue...)
}

func answeredAlready[K comparable](k K, a *answer) *pending[K] {
	p := &pending[K]{key: k, cancel: func() {}, done: make(chan struct{}), a: a, bytes: max(a.bytes, leastBody)}
	close(p.done)
	return p
}

// fill sends the request k, unless it was sent before, and the requests that follow k.
func (q *ahead[K]) fill(ctx context.Context, k K) {
	if len(q.queue) > 0 && q.queue[0].key != k {
		q.reset()
	}
	if len(q.queue) == 0 && (q.apart == nil || !q.apart.has(k)) {
		q.start(ctx, k)
	}
	q.extend(ctx)
}

// extend requests the answers that follow the newest request. The governor says how many requests must be open to use
// the whole rate limit. If an answer is late, the answers after it wait in the queue. So the queue may hold twice that
// number of requests. The size of the bodies of all streams together is limited too. // Invariant 6
func (q *ahead[K]) extend(ctx context.Context) {
	if q.apart != nil {
		q.apart.extend(ctx)
	}
	room, most := q.c.room(q.s)
	for room > 0 && len(q.queue) > 0 && len(q.queue) < most && q.c.inFlight.Load()+q.estimate() <= q.c.maxBytes {
		last := len(q.queue) - 1
		k, ok := q.following(last, q.queue[last].key)
		if !ok {
			return
		}
		q.start(ctx, k)
		room--
	}
}

// leastBody is the least memory that is counted for the body of an answer.
const leastBody = 64 << 10

func (q *ahead[K]) estimate() int64 { return max(q.size, leastBody) }

func (q *ahead[K]) start(ctx context.Context, k K) {
	if q.early != nil {
		if a := q.early(k); a != nil {
			p := answeredAlready(k, a)
			q.c.inFlight.Add(p.bytes)
			q.queue = append(q.queue, p)
			return
		}
	}
	q.queue = append(q.queue, q.request(ctx, k, len(q.queue) == 0, q.fetch))
}

// fetcher sends a request. It calls take() with the new size before the body of the answer takes more memory.
type fetcher[K comparable] func(ctx context.Context, k K, take func(size int64) bool) (*answer, error)

func (q *ahead[K]) request(ctx context.Context, k K, needed bool, fetch fetcher[K]) *pending[K] {
	if q.answered == nil {
		q.answered = q.c.listen()
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &pending[K]{key: k, cancel: cancel, done: make(chan struct{}), bytes: q.estimate()}
	p.needed.Store(needed)
	q.c.inFlight.Add(p.bytes)
	q.wg.Go(func() {
		p.a, p.err = fetch(ctx, k, func(size int64) bool { return q.grow(p, size) })
		var size int64
		if p.err == nil {
			size = max(p.a.bytes, leastBody)
		}
		q.c.inFlight.Add(size - p.bytes)
		p.bytes = size
		close(p.done)
		q.c.wakeAll()
	})
	return p
}

// grow reports whether the body of p may take memory of the given size. If an answer was requested in advance, and its
// body is larger than the memory that is left, the request is cancelled and sent again later. // Invariant 6
func (q *ahead[K]) grow(p *pending[K], size int64) bool {
	more := size - p.bytes
	switch {
	case more <= 0:
		return true
	case p.needed.Load():
		q.c.inFlight.Add(more)
	case !q.c.reserve(more):
		p.shed = true
		p.cancel()
		return false
	}
	p.bytes = size
	return true
}

func (q *ahead[K]) drop(i int) {
	q.discard(q.queue[i])
	q.queue = append(q.queue[:i], q.queue[i+1:]...)
}

// discard ends a request and releases its answer.
func (q *ahead[K]) discard(p *pending[K]) {
	p.cancel()
	<-p.done
	q.c.inFlight.Add(-p.bytes)
	q.c.release(p.a)
}

func (q *ahead[K]) reset() {
	for _, p := range q.queue {
		p.cancel()
	}
	for len(q.queue) > 0 {
		q.drop(0)
	}
}

// stop ends all requests and waits for their goroutines. // Invariant 15
func (q *ahead[K]) stop() {
	q.reset()
	if q.apart != nil {
		q.apart.stop()
	}
	q.wg.Wait()
	q.c.forget(q.answered)
}
