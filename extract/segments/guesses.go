package segments

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

const (
	freePages   = 4    // up to this many known pages, only one guess is allowed, because it may find no records
	perGuess    = 5    // for each further group of this many known pages, another guess is allowed
	perLate     = 2.5  // replaces perGuess if the total shows at least longList pages, and at most half of the rate is used
	longList    = 100  // see perLate
	firstStride = 48   // if nothing shows where the list ends, the first guess is this many pages ahead
	ladder      = 1.75 // each further guess assumes that the list is longer by this factor
	leastRounds = 2    // a gap is divided only if it needs more requests than this, one after another
	leastShare  = 0.6  // a gap is not divided if a part would need fewer requests than this factor × fair share: see divide
	uneven      = 1.2  // if the rate is used up, only gaps of more than uneven × fair share + 1 pages are divided
)

// Requests returns the requests that can be sent now. The arguments are limits:
//   - room: how many requests it may return
//   - parallel: how many requests the rate limit allows at the same time
//   - window: Requests names only pages that follow the position of the pass within about this many pages
//
// If fewer segments are read than the rate limit allows, Requests divides the largest gaps with guesses. If more
// segments are read, those with the most remaining pages continue first. So all segments end at about the same time.
func (p *Plan) Requests(room, parallel, window int) []Request {
	if p.off || p.scale == nil {
		return nil
	}
	v := p.survey(float64(window))
	slices.SortStableFunc(v.ready, func(a, b ready) int { return cmp.Compare(b.pages, a.pages) })
	var out []Request
	for _, r := range v.ready {
		if p.wanted[r.s.head] != nil {
			r.s.met = r.s.head
		} else if len(out) < min(room, max(parallel, 1)-v.waiting) {
			r.s.waits = true
			p.want(r.s, r.s.head)
			out = append(out, Request{Key: r.s.head})
		}
	}
	if p.failures >= maxFailures {
		return out
	}
	per := float64(perGuess)
	if p.left >= 0 && v.known >= longList && 2*v.reading <= parallel {
		per = perLate
	}
	allowed := 1 + int(max(v.known-freePages, 0)/per) - p.guesses
	divide(v.gaps, min(room-len(out), allowed), parallel-v.reading, v.work/float64(max(parallel, 1)))
	for _, g := range v.gaps {
		for _, x := range p.places(g) {
			if key, ok := p.guess(x); ok {
				out = append(out, Request{Key: key, Guessed: true})
			}
		}
	}
	return out
}

// divide decides how many guesses to send to each gap. Besides the gaps, the arguments are:
//   - guesses: how many guesses it may send to all gaps together
//   - free: how many more segments the rate limit allows
//   - fair: the fair share, which is the number of pages to request, divided by the number of parallel requests
//
// If the rate limit allows no more segments, only gaps that need many more requests than the fair share are divided. If
// they were not divided, the pass would have to wait for them at its end.
func divide(gaps []gap, guesses, free int, fair float64) {
	for sent := range guesses {
		best, most := -1, float64(leastRounds)
		if sent >= free {
			most = max(most, uneven*fair+1)
		}
		for i, g := range gaps {
			n := g.rounds(g.guesses)
			if n > most && !g.waits && (g.end == endless || g.rounds(g.guesses+1) >= leastShare*fair) {
				best, most = i, n
			}
		}
		if best < 0 {
			return
		}
		gaps[best].guesses++
	}
}

// places returns the places of the guesses in a gap. If the list may end in the gap, it is more likely to end near the
// beginning of the gap than near the end of the gap.
func (p *Plan) places(g gap) (out []uint64) {
	parts := float64(g.guesses + 1)
	for i := range g.guesses {
		n := float64(i + 1)
		var pages float64 // distance from the beginning of the gap, in pages
		switch g.end {
		case closed:
			pages = 1 + n*(g.pages-1)/parts
		case bounded:
			pages = g.before*math.Pow(1+(g.pages+1)/endWeight/g.before, n/parts) - g.before
		case endless:
			pages = max(g.before, firstStride) * (math.Pow(ladder, n) - 1)
			if g.before < firstStride && g.guesses == 1 {
				pages = firstStride
			}
		}
		if p.dense {
			pages = math.Round(pages) // the guess is then the key of the last record of a page, so the pass can use the answer
		}
		if x := g.from + uint64(min(pages*g.span, math.MaxUint64/4)); x < g.to {
			out = append(out, x)
		}
	}
	return out
}

// guess adds a guess for the key at place x.
func (p *Plan) guess(x uint64) (key string, ok bool) {
	key, ok = p.scale.key(x)
	if !ok || p.wanted[key] != nil || !p.scale.before(p.key, key) {
		return "", false
	}
	if x, ok = p.scale.place(key); !ok {
		return "", false
	}
	p.guesses++
	s := &segment{x: x, headX: x, guess: true, waits: true}
	at := sort.Search(len(p.segments), func(i int) bool { return p.segments[i].x > x })
	p.segments = slices.Insert(p.segments, at, s)
	p.want(s, key)
	return key, true
}
