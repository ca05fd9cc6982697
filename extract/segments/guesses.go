package segments

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

const (
	firstPages  = 2    // pages that the pass must have read before a key is guessed, unless enough pages follow by the total
	leastPages  = 6    // such pages
	freePages   = 4    // for so many pages that are known to exist, only one guess is allowed, since it may find no records
	perGuess    = 5    // for so many further pages, another guess is allowed
	perLate     = 2.5  // the same for a list of at least longList pages by its total, while at most half of the allowed segments are read
	longList    = 100  // pages of such a list
	firstStride = 48   // if nothing shows how long the list is, the first guess is this many pages ahead
	ladder      = 1.75 // each further guess makes the list this factor longer
	leastRounds = 2    // a gap that needs no more answers, one after another, is not divided
	leastShare  = 0.6  // a part of a gap has at least this share of the fair share
	uneven      = 1.2  // a gap may be longer than the fair share by this factor, and by a page
)

// Requests returns at most room requests. The rate takes parallel requests at the same time. If fewer segments are read,
// the largest gaps are divided. If more are read, the segments with the most pages to read continue first. So all
// segments end at about the same time.
//
// A page is requested only if probably less than window pages are before it that the pass has not read yet.
func (p *Plan) Requests(room, parallel, window int) []Request {
	if p.off || p.scale == nil || !p.long() {
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

// long reports whether the list is known to be long enough for guesses.
func (p *Plan) long() bool { return p.pages >= firstPages || p.left >= leastPages }

// divide decides how many guesses to send to each gap, at most the given number. The rate takes free more segments. If
// it takes no more, only gaps are divided that need many more answers than the fair share, because the pass would wait
// for them at the end.
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

// places returns the places of the guesses in a gap. If the list ends in the gap, it is more likely to end early.
func (p *Plan) places(g gap) (out []uint64) {
	parts := float64(g.guesses + 1)
	for i := range g.guesses {
		n := float64(i + 1)
		var pages float64 // from the beginning of the gap
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
			pages = math.Round(pages) // the key is that of a record, so that the page can be used
		}
		if x := g.from + uint64(min(pages*g.span, math.MaxUint64/4)); x < g.to {
			out = append(out, x)
		}
	}
	return out
}

// guess adds a guess at a place.
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
