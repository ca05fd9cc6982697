package segments

import "math"

const (
	endWeight = 0.5 // if the list may end anywhere in a gap, this share of the gap probably has records
	doubt     = 1.5 // the last gap reaches this many standard deviations beyond the estimated end of the list
	mostAtEnd = 4   // maximum number of guesses at the same time in a gap where the list may end
	unknown   = 2   // if nothing shows where a list ends, its expected length is the number of known pages multiplied by this
)

// gap is a part of the list that no segment has read.
type gap struct {
	from, to uint64
	span     float64 // distance that a page covers on the scale
	before   float64 // pages of the list before the gap, an estimate
	pages    float64 // pages in the gap, an estimate; without the page that is already requested
	end      end
	waits    bool // the gap begins or ends with a guess whose answer has not arrived
	guesses  int  // guesses to send
}

// end says how a gap ends.
type end uint8

const (
	closed  end = iota // the gap ends at a segment, or where the list probably ends
	bounded            // the list ends somewhere in the gap
	endless            // nothing shows where the list ends
)

// rounds returns how many requests, one after another, are needed to read the gap if n guesses divide it into n+1
// parts. The first part is already read while the guesses are under way. So it is one page longer than the other parts,
// and all parts end at the same time.
func (g gap) rounds(n int) float64 {
	switch {
	case g.end != closed && n >= mostAtEnd:
		return 0
	case g.end == endless:
		return math.Inf(1)
	case n == 0:
		return g.pages
	}
	return (g.pages-1)/float64(n+1) + 1
}

// survey contains what is known about the list after the position of the pass.
type survey struct {
	gaps    []gap
	ready   []ready
	reading int     // number of segments that are read, plus guesses, plus 1 if the pass requests pages itself
	waiting int     // how many of these wait for an answer
	known   float64 // pages of the list that are known to exist
	work    float64 // pages to request
}

// ready is a segment that can continue, with the number of pages that it must read.
type ready struct {
	s     *segment
	pages float64
}

// survey goes through the segments and gaps after the position of the pass. The argument `window` is a number of pages:
// survey plans no requests for pages that are farther from the position.
func (p *Plan) survey(window float64) (v survey) {
	x, near, ahead, met, guessed := p.x, p.near, 0.0, p.wanted[p.key] != nil, false
	if !met {
		v.reading, v.waiting = 1, 1
	}
	var before *ready // the segment before the gap, if it can continue
	for _, s := range p.segments {
		if !met && s.x > x {
			g := gap{from: x, to: s.x, span: p.between(near, s.near), waits: guessed || s.guess || ahead >= window}
			pages := float64(s.x-x) / g.span
			g.pages = pages - 1
			if before != nil {
				before.pages = pages
			}
			v.work += max(min(g.pages, window-ahead), 0)
			v.gaps = append(v.gaps, g)
			ahead += pages
		}
		before = nil
		ahead += float64(len(s.after))
		if s.waits {
			v.waiting++
			v.reading++
		}
		if guessed = s.guess; guessed {
			x, met = s.x, false
			continue
		}
		v.known = ahead
		met = s.ended || p.wanted[s.met] != nil
		if !s.waits && !met && !s.broken && ahead < window {
			v.ready = append(v.ready, ready{s: s})
			v.reading++
			before = &v.ready[len(v.ready)-1]
		}
		x, near = s.headX, s.near
	}
	if p.left >= 0 && p.end == math.MaxUint64 { // the total is used until a guess has found the end of the list
		v.known = p.left
	}
	v.known += float64(p.pages)
	if before != nil {
		before.pages = math.Inf(1) // the pass waits longest for the end of the list
	}
	if g := p.last(x, p.between(near, density{}), ahead, window-ahead); !met && g.pages > 0 {
		g.waits = guessed
		v.work += g.pages
		v.gaps = append(v.gaps, g)
	}
	return v
}

// last returns the gap after the last segment. The argument `room` is how many pages of this gap may be requested.
func (p *Plan) last(x uint64, span, ahead, room float64) gap {
	g := gap{from: x, to: x, span: span, before: ahead + float64(p.pages), end: endless}
	if x >= p.end || room <= 0 {
		return g
	}
	end := p.end
	if p.latest > x {
		end = min(end, p.latest)
	}
	bound := float64(end-x) / span
	switch {
	case p.left >= 0:
		g.end, g.pages = closed, min(p.left-ahead+doubt*p.left/math.Sqrt(p.all.pages*float64(p.size)), bound)
	case end != math.MaxUint64:
		g.end, g.pages = bounded, bound
	default:
		g.pages = math.Inf(1)
	}
	g.pages = min(g.pages, room)
	g.to = x + uint64(min(max(g.pages, 0)*g.span, math.MaxUint64/4))
	switch g.end {
	case endless:
		g.pages = max(g.before, firstStride) * unknown
	case bounded:
		g.pages *= endWeight
	}
	g.pages--
	return g
}
