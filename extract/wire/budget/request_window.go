package budget

import "time"

// The guard is the extra time beyond the window for which a request counts. It is needed because the server counts
// arrivals: a request that was delayed on its way arrives in a later window than it was sent for. The delay is at most
// the time that the answer took, minus the time of the fastest answer.
//
// A slow answer looks the same as a delay. So that slow answers do not use up the budget, guards are cut when their
// mean exceeds meanGuard. Rare long guards, as on a busy machine, are not cut.
const (
	earlyGuard = 5 * time.Millisecond // until enough answers were seen
	leastGuard = 2 * time.Millisecond
	guardSlack = time.Millisecond // the fastest possible request may not have been seen yet
	meanGuard  = 50 * time.Millisecond
	mostGuard  = time.Second
	early      = 64          // answers before leastGuard applies
	fastSpan   = time.Minute // the fastest answer is remembered for at least this long
)

// requestWindow counts the requests that the server may still count in a window. // Invariant 4
//
// Each request is recorded under the instant at which its window begins; it stops counting a window later.
// Instants are grouped into buckets of at least 1/4000 of the window, so memory use does not depend on the rate.
type requestWindow struct {
	width  time.Duration // of a bucket; zero before the first request
	oldest int64         // number of the oldest bucket that counts
	newest int64         // number of the newest possible bucket
	total  int64         // requests in the buckets that count
	counts [buckets]uint32

	answers  int64
	fastest  time.Duration // fastest answer of this span; previous: of the span before
	previous time.Duration
	spanEnds instant
	guard    time.Duration // moving average
	maxGuard time.Duration // upper bound of guards; at least meanGuard is used
}

const (
	buckets = 4096

	// horizon is how far ahead of now requests are counted.
	horizon = mostAhead + late + mostGuard
)

// room returns the first instant, not before from, at which fewer than n requests count, and how many do. If n is not a
// whole number, it is rounded down. Call advance first.
func (l *requestWindow) room(from instant, window time.Duration, n float64) (at instant, counted int) {
	at, left := from, l.total
	for b := l.oldest; left > 0 && b <= l.newest; b++ {
		ends := l.end(b).add(window)
		if ends > from && float64(left+1) <= n {
			break
		}
		if c := int64(l.counts[b%buckets]); c > 0 {
			left, at = left-c, max(at, ends)
		}
	}
	return at, int(left)
}

// end returns the instant at which bucket b ends.
func (l *requestWindow) end(b int64) instant { return instant((b + 1) * int64(l.width)) }

func (l *requestWindow) bucket(i instant) int64 { return int64(i) / int64(l.width) }

// advance drops the requests that no longer count at the given instant, and prepares the buckets for new ones.
func (l *requestWindow) advance(now instant, window time.Duration) {
	if width := (window + horizon) / (buckets - 8); width != l.width {
		l.rebuild(width, now, window)
	}
	oldest := l.bucket(now.add(-window))
	for ; l.oldest < oldest && l.oldest <= l.newest; l.oldest++ {
		l.total -= int64(l.counts[l.oldest%buckets])
		l.counts[l.oldest%buckets] = 0
	}
	l.oldest = max(l.oldest, oldest)
	l.newest = max(l.newest, l.bucket(now.add(horizon))+1)
}

// rebuild converts the counts to buckets of another width, for another window.
func (l *requestWindow) rebuild(width time.Duration, now instant, window time.Duration) {
	old := *l
	l.counts, l.total = [buckets]uint32{}, 0
	l.width = width
	l.oldest, l.newest = l.bucket(now.add(-window)), l.bucket(now.add(horizon))+1
	if old.total == 0 {
		return
	}
	for b := old.oldest; b <= old.newest; b++ {
		if n := old.counts[b%buckets]; n > 0 {
			l.note(old.end(b)-1, n)
		}
	}
}

// note counts n requests in the bucket of the instant i. If i is later than the newest bucket, it counts them there;
// if i is too old to count, it does nothing.
func (l *requestWindow) note(i instant, n uint32) {
	b := min(l.bucket(i), l.newest)
	if b < l.oldest {
		return
	}
	l.counts[b%buckets] += n
	l.total += int64(n)
}

// drop no longer counts a request that was noted at the instant i. It reports whether the request did count.
func (l *requestWindow) drop(i instant) bool {
	b := min(l.bucket(i), l.newest)
	if b < l.oldest || l.counts[b%buckets] == 0 {
		return false
	}
	l.counts[b%buckets]--
	l.total--
	return true
}

// holds reports whether a request that was noted at the instant i still counts.
func (l *requestWindow) holds(i instant) bool { return l.bucket(i) >= l.oldest }

// guardFor returns the guard of a request that took this long, and updates the statistics.
func (l *requestWindow) guardFor(took time.Duration, answered bool, now instant) time.Duration {
	guard := mostGuard
	if answered {
		guard = l.delay(took, now)
	}
	guard = min(guard, l.longest())
	l.guard += (guard - l.guard) / 64
	l.maxGuard = l.longest() + l.longest()/64
	if l.guard > meanGuard {
		l.maxGuard = l.longest() - l.longest()/32
	}
	return guard
}

// longest returns the upper bound of guards at present.
func (l *requestWindow) longest() time.Duration { return min(max(l.maxGuard, meanGuard), mostGuard) }

// delay returns how long a request may have been delayed on its way.
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
