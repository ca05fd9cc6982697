package postgres

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// writerLimit limits the transactions that write: only a limited number of them have a connection of the server at the
// same time. See [server] for the reason.
//
// A pass that does not fit into memory has transactions at several destinations at the same time. If these destinations
// use the same server, and each transaction waited for a place of its own, such passes could wait for each other. So a
// pass takes the places for all its destinations of the server together, before its first transaction. Its other
// transactions use these places without waiting. The places are given back when none of the transactions is open.
type writerLimit struct {
	free *semaphore.Weighted

	mu    sync.Mutex
	taken map[passID]*passPlaces
}

// passID identifies a pass at all destinations of a server. The field `source` is needed because one run may read the
// same stream of several sources. The value of this field comes from [load.Pass] and not from the [state.Key]: if only
// one source uses a destination, the keys have no source.
type passID struct{ pipeline, source, stream, run string }

// passPlaces are the places that one pass has taken.
type passPlaces struct {
	number int64
	used   int64 // number of open transactions
}

// reserve reserves a place for a transaction. If the pass has an unused place, reserve returns at once. Otherwise it
// takes the given number of places for the pass. The caller calls release once, after it has given back its connection.
func (p *writerLimit) reserve(ctx context.Context, limit time.Duration, of passID, number int64) (release func(), err error) {
	if at := p.use(of); at != nil {
		return func() { p.leave(of, at) }, nil
	}
	if err := patiently(ctx, limit, func(ctx context.Context) error { return p.free.Acquire(ctx, number) }); err != nil {
		return nil, err
	}
	at := p.use(of)
	if at != nil { // meanwhile, another transaction has taken the places for this pass
		p.free.Release(number)
	} else {
		at = p.add(of, number)
	}
	return func() { p.leave(of, at) }, nil
}

// use returns the places of a pass, and counts one of them as used. It returns nil if the pass has no unused place.
func (p *writerLimit) use(of passID) *passPlaces {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.taken[of]
	if at == nil || at.used == at.number {
		return nil
	}
	at.used++
	return at
}

// add adds places that were taken for a pass, and counts one of them as used.
func (p *writerLimit) add(of passID, number int64) *passPlaces {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := &passPlaces{number: number, used: 1}
	if p.taken[of] == nil {
		p.taken[of] = at
	}
	return at
}

// leave ends the use of one place. If the pass uses no other place, leave gives all of them back.
func (p *writerLimit) leave(of passID, at *passPlaces) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.used--; at.used > 0 {
		return
	}
	if p.taken[of] == at {
		delete(p.taken, of)
	}
	p.free.Release(at.number)
}
