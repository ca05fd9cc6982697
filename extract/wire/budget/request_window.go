package budget

import "time"

// The guard is the extra time for which penstock counts a request, beyond the window. It is needed because a request
// may be delayed on its way, and the server counts it from its arrival. The delay is at most the time until the answer,
// minus the time of the fastest answer. If the fastest answer took 20 ms and this answer took 50 ms, the request was
// delayed by at most 30 ms.
//
// But a slow answer of a busy server looks the same as a delayed request, and long guards waste a part of the limit. So
// guards are shortened while their mean is above meanGuard. A few long guards, which a busy machine causes, do not
// raise the mean that far. If the server refuses a request while guards are shortened, the requests were really delayed
// on their way. Then the mean may become twice as long.
const (
	earlyGuard = 5 * time.Millisecond // shortest guard for the first answers
	leastGuard = 2 * time.Millisecond
	guardSlack = time.Millisecond // added because an even faster answer may be possible
	fewAnswers = 4                // after n answers, the next answer may be faster than all of them, by 4/n of the difference between the slowest and the fastest
	meanGuard  = 60 * time.Millisecond
	mostGuard  = time.Second
	early      = 64          // this many of the first answers have earlyGuard
	fastSpan   = time.Minute // the fastest answer is remembered at least this long
	refusalAge = time.Hour   // this long after the last refusal, the mean is limited to meanGuard again
)

// requestWindow counts the requests that the server may still count in a window. // Invariant 4
//
// Each request is recorded at an instant, and stops counting one window later. Instants are grouped into a fixed number
// of buckets. So memory use does not depend on the rate.
type requestWindow struct {
	width  time.Duration // width of a bucket; zero before the first request
	oldest int64         // number of the oldest bucket that counts
	newest int64         // number of the newest bucket
	total  int64         // requests in the buckets that count
	counts [buckets]uint32

	answers  int64
	fastest  time.Duration // fastest answer since the current fastSpan began
	previous time.Duration // fastest answer of the previous fastSpan
	slowest  time.Duration // slowest answer; when a fastSpan begins, it moves halfway to the newest answer
	seen     int64         // number of answers, halved when a fastSpan begins
	spanEnds instant
	guard    time.Duration // mean guard, a moving average
	maxGuard time.Duration // longest guard; a value below meanGuard counts as meanGuard
	mean     time.Duration // longest allowed mean of the guards; a value below meanGuard counts as meanGuard
	refused  instant       // when a request was last refused while guards were shortened
}

const (
	buckets = 4096

	// horizon is how far in the future the instant of a counted request may be.
	horizon = mostAhead + late + mostGuard
)

// room returns the first instant at which the window counts fewer than n requests. This instant is not before earliest.
// It also returns how many requests the window counts at that instant. Call advance first.
func (l *requestWindow) room(earliest instant, window time.Duration, n float64) (first instant, counted int) {
	first, left := earliest, l.total
	for b := l.oldest; left > 0 && b <= l.newest; b++ {
		ends := l.end(b).add(window)
		if ends > earliest && float64(left+1) <= n {
			break
		}
		if c := int64(l.counts[b%buckets]); c > 0 {
			left, first = left-c, max(first, ends)
		}
	}
	return first, int(left)
}

// end returns the instant at which bucket b ends.
func (l *requestWindow) end(b int64) instant { return instant((b + 1) * int64(l.width)) }

func (l *requestWindow) bucket(i instant) int64 { return int64(i) / int64(l.width) }

// advance removes requests that no longer count, and prepares the buckets for new requests.
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

// rebuild changes the width of the buckets, for another window.
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

// note counts n requests at the instant i. If i is after the newest bucket, note counts them in the newest bucket. If i
// is before the oldest bucket, note ignores them.
func (l *requestWindow) note(i instant, n uint32) {
	b := min(l.bucket(i), l.newest)
	if b < l.oldest {
		return
	}
	l.counts[b%buckets] += n
	l.total += int64(n)
}

// drop stops counting a request that was noted at the instant i. It reports whether the request counted.
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

// guardFor returns the guard of a request that took the given time, with or without an answer. It also updates the
// statistics.
func (l *requestWindow) guardFor(elapsed time.Duration, answered bool, now instant) time.Duration {
	guard, slack := mostGuard, time.Duration(0)
	if answered && elapsed >= 0 { // a negative time means that the clock was set back
		guard, slack = l.delay(elapsed, now)
	}
	guard = min(guard, l.longest())
	l.guard += (guard - l.guard) / 64
	l.maxGuard = l.longest() + l.longest()/64
	if l.guard > l.longestMean(now) {
		l.maxGuard = l.longest() - l.longest()/32
	}
	return min(guard+slack, mostGuard)
}

// longestMean returns how long the mean guard may be.
func (l *requestWindow) longestMean(now instant) time.Duration {
	if now.sub(l.refused) > refusalAge {
		return meanGuard
	}
	return max(l.mean, meanGuard)
}

// refuse learns that the server has refused a request.
func (l *requestWindow) refuse(now instant) {
	if mean := l.longestMean(now); l.longest() < mostGuard {
		l.mean, l.refused = min(2*mean, mostGuard), now
		l.maxGuard = mostGuard
	}
}

// unanswered returns the guard of a request that has no answer yet. If no answer arrives within a window, the request
// may be delayed, so it gets the longest guard. But if even the fastest answers take longer than a window, a missing
// answer is no sign of a delay. Then the guard follows the measured guards.
func (l *requestWindow) unanswered(window time.Duration) time.Duration {
	if l.answers < early {
		return mostGuard
	}
	usual := max(4*l.guard, meanGuard)
	if min(l.fastest, l.previous) > window+late+usual {
		return min(usual, l.longest())
	}
	return l.longest()
}

// longest returns the longest guard at present.
func (l *requestWindow) longest() time.Duration { return min(max(l.maxGuard, meanGuard), mostGuard) }

// delay returns how long a request may have been delayed on its way. The slack is added to it, because a later answer
// may be faster than the fastest one so far.
func (l *requestWindow) delay(elapsed time.Duration, now instant) (delay, slack time.Duration) {
	if l.spanEnds.before(now) {
		l.previous, l.fastest = l.fastest, elapsed
		if l.answers == 0 {
			l.previous = elapsed
		}
		l.spanEnds = now.add(fastSpan)
		l.slowest, l.seen = (l.slowest+elapsed)/2, l.seen/2
	}
	l.fastest, l.slowest = min(l.fastest, elapsed), max(l.slowest, elapsed)
	l.answers++
	l.seen++
	least := leastGuard
	if l.answers < early {
		least = earlyGuard
	}
	fastest := min(l.fastest, l.previous)
	spread := l.slowest - fastest
	return max(elapsed-fastest+guardSlack, least), min(fewAnswers*spread/time.Duration(l.seen), spread)
}
