package wire

import "time"

// The guard is how much longer than the window a request counts: the server
// counts arrivals, and a request that was held up on its way arrives closer to
// the next window's requests than it was sent. The time an answer took beyond
// the fastest one bounds that delay.
//
// A server that works long on some answers looks the same from here. So that
// it does not cost the whole budget, guards are cut where their mean passes
// meanGuard; rare long ones, as of a busy machine, stay whole.
const (
	earlyGuard = 5 * time.Millisecond // until the fastest answer is known well
	leastGuard = 2 * time.Millisecond
	guardSlack = time.Millisecond // the fastest way there may not have been seen
	meanGuard  = 50 * time.Millisecond
	mostGuard  = time.Second
	early      = 64          // answers until then
	fastSpan   = time.Minute // how long the fastest answer is remembered, at least
)

// ledger knows which requests the server may still count in a window that a
// request sent now would fall into. // Invariant 4
type ledger struct {
	open   []*slot     // on their way, or about to be
	counts instantHeap // answered: the instants from which a window must pass

	answers  int
	fastest  time.Duration // in this span and the last
	previous time.Duration
	spanEnds time.Time
	guard    time.Duration // mean, lately
	cut      time.Duration // guards are no longer than this; zero means meanGuard
}

// occupied returns how many requests count at now, and the instant at which
// one less will.
func (l *ledger) occupied(now time.Time, window time.Duration) (int, time.Time) {
	for len(l.counts) > 0 && !l.counts[0].Add(window).After(now) {
		l.counts.pop()
	}
	n := len(l.counts)
	var next time.Time
	if n > 0 {
		next = l.counts[0].Add(window)
	}
	for _, s := range l.open {
		if s.sent.IsZero() {
			n++
			continue
		}
		free := s.sent.Add(window + l.longest())
		if !free.After(now) {
			continue
		}
		n++
		if next.IsZero() || free.Before(next) {
			next = free
		}
	}
	return n, next
}

func (l *ledger) add(s *slot) {
	s.index = len(l.open)
	l.open = append(l.open, s)
}

func (l *ledger) remove(s *slot) {
	last := len(l.open) - 1
	l.open[s.index] = l.open[last]
	l.open[s.index].index = s.index
	l.open[last] = nil
	l.open = l.open[:last]
}

// settle moves an answered request, or one that will have no answer, to those
// whose time is known.
func (l *ledger) settle(s *slot, answered bool, now time.Time) {
	l.remove(s)
	if s.sent.IsZero() && !answered {
		return // it never left: the server cannot have counted it
	}
	if s.sent.IsZero() {
		s.sent = now // answered before it was known to have been sent
	}
	guard := mostGuard
	if answered {
		guard = l.delay(now.Sub(s.sent), now)
	}
	guard = min(guard, l.longest())
	l.guard += (guard - l.guard) / 64
	l.cut = l.longest() + l.longest()/64
	if l.guard > meanGuard {
		l.cut = l.longest() - l.longest()/32
	}
	l.counts.push(s.sent.Add(guard))
}

// longest returns the longest guard there may be at present.
func (l *ledger) longest() time.Duration { return min(max(l.cut, meanGuard), mostGuard) }

// delay returns by how much a request may have been held up on its way.
func (l *ledger) delay(took time.Duration, now time.Time) time.Duration {
	if now.After(l.spanEnds) {
		l.previous, l.fastest = l.fastest, took
		if l.answers == 0 {
			l.previous = took
		}
		l.spanEnds = now.Add(fastSpan)
	}
	l.fastest = min(l.fastest, took)
	l.answers++
	least := leastGuard
	if l.answers < early {
		least = earlyGuard
	}
	return max(took-min(l.fastest, l.previous)+guardSlack, least)
}

// instantHeap has its earliest instant first.
type instantHeap []time.Time

func (h *instantHeap) push(t time.Time) {
	*h = append(*h, t)
	for i := len(*h) - 1; i > 0; {
		up := (i - 1) / 2
		if !(*h)[i].Before((*h)[up]) {
			return
		}
		(*h)[i], (*h)[up] = (*h)[up], (*h)[i]
		i = up
	}
}

func (h *instantHeap) pop() {
	last := len(*h) - 1
	(*h)[0] = (*h)[last]
	*h = (*h)[:last]
	for i := 0; ; {
		least := i
		for _, down := range []int{2*i + 1, 2*i + 2} {
			if down < last && (*h)[down].Before((*h)[least]) {
				least = down
			}
		}
		if least == i {
			return
		}
		(*h)[i], (*h)[least] = (*h)[least], (*h)[i]
		i = least
	}
}
