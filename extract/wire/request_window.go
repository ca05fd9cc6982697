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

// requestWindow knows which requests the server may still count in a window that a
// request sent now would fall into. // Invariant 4
//
// Each is noted under the instant from which a window must pass until it counts
// no more. Instants are told apart to the window's two thousandth part, at most
// a millisecond of a second: a ledger is as small for two thousand requests a
// second as for one.
type requestWindow struct {
	width  time.Duration // of a bucket; zero until the first note
	oldest int64         // number of the oldest bucket that counts
	newest int64         // of the newest there can be
	total  int64         // in the buckets that count
	counts [buckets]uint32

	answers  int64
	fastest  time.Duration // in this span and the last
	previous time.Duration
	spanEnds instant
	guard    time.Duration // mean, lately
	cut      time.Duration // guards are no longer than this; zero means meanGuard
}

const buckets = 2048

// occupied returns how many requests count, and the instant at which one less
// will; zero for none. The ledger has been turned to now.
func (l *requestWindow) occupied(window time.Duration) (int, instant) {
	if l.total == 0 {
		return 0, 0
	}
	b := l.oldest
	for l.counts[b%buckets] == 0 && b < l.newest {
		b++
	}
	return int(l.total), l.end(b).add(window)
}

// end is the instant at which bucket b ends.
func (l *requestWindow) end(b int64) instant { return instant((b + 1) * int64(l.width)) }

func (l *requestWindow) bucket(i instant) int64 { return int64(i) / int64(l.width) }

// turn forgets what counts no more at now, and readies the buckets for what may
// be noted by then.
func (l *requestWindow) turn(now instant, window time.Duration) {
	if width := (window + mostGuard) / (buckets - 8); width != l.width {
		l.rebuild(width, now, window)
	}
	oldest := l.bucket(now.add(-window))
	for ; l.oldest < oldest && l.oldest <= l.newest; l.oldest++ {
		l.total -= int64(l.counts[l.oldest%buckets])
		l.counts[l.oldest%buckets] = 0
	}
	l.oldest = max(l.oldest, oldest)
	l.newest = max(l.newest, l.bucket(now.add(mostGuard))+1)
}

// rebuild makes buckets of another width, for another window, out of what there
// is. What counted longer than the window does not.
func (l *requestWindow) rebuild(width time.Duration, now instant, window time.Duration) {
	old := *l
	l.counts, l.total = [buckets]uint32{}, 0
	l.width = width
	l.oldest, l.newest = l.bucket(now.add(-window)), l.bucket(now.add(mostGuard))+1
	if old.total == 0 {
		return
	}
	for b := old.oldest; b <= old.newest; b++ {
		if n := old.counts[b%buckets]; n > 0 {
			l.note(old.end(b)-1, n)
		}
	}
}

// note counts n requests from i on. What lies beyond the buckets is noted in the
// last of them.
func (l *requestWindow) note(i instant, n uint32) {
	b := min(l.bucket(i), l.newest)
	if b < l.oldest {
		return
	}
	l.counts[b%buckets] += n
	l.total += int64(n)
}

// move notes one request under another instant.
func (l *requestWindow) move(from, to instant) {
	if b := min(l.bucket(from), l.newest); b >= l.oldest && l.counts[b%buckets] > 0 {
		l.counts[b%buckets]--
		l.total--
		l.note(to, 1)
	}
}

// guardOf is how much longer than the window a request counts that was answered
// after it took so long, and notes what that says of the way.
func (l *requestWindow) guardOf(took time.Duration, answered bool, now instant) time.Duration {
	guard := mostGuard
	if answered {
		guard = l.delay(took, now)
	}
	guard = min(guard, l.longest())
	l.guard += (guard - l.guard) / 64
	l.cut = l.longest() + l.longest()/64
	if l.guard > meanGuard {
		l.cut = l.longest() - l.longest()/32
	}
	return guard
}

// longest returns the longest guard there may be at present.
func (l *requestWindow) longest() time.Duration { return min(max(l.cut, meanGuard), mostGuard) }

// delay returns by how much a request may have been held up on its way.
func (l *requestWindow) delay(took time.Duration, now instant) time.Duration {
	if l.spanEnds.before(now) {
		l.previous, l.fastest = l.fastest, took
		if l.answers == 0 {
			l.previous = took
		}
		l.spanEnds = now.add(fastSpan)
	}
	l.fastest = min(l.fastest, took)
	l.answers++
	least := leastGuard
	if l.answers < early {
		least = earlyGuard
	}
	return max(took-min(l.fastest, l.previous)+guardSlack, least)
}
