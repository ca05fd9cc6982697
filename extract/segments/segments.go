// Package segments plans how a list is read in several segments at the same time. The list continues after the key of
// its last record, as with starting_after=17. It must be sorted by that key.
//
// To find a record far ahead, a guessed key is sent. The last record of the answer has a real key, and a segment
// begins after that record. Several segments are read at the same time. The pass reads them in the order of the list.
//
// A page is used only if the pass has read the record after whose key the page was requested. So each page is the
// answer to the request that the pass would have sent at that position, if it read one page after another. If the key
// of a segment is on none of the pages, because its record was deleted or the server answered wrongly, the pass
// requests the pages itself.
//
// The package sends no requests. A [Plan] names the keys to request, and takes what the answers contain.
package segments

import (
	"math"
	"slices"
	"sort"
)

const (
	firstPages  = 2   // pages that the pass must have read before a key is guessed
	leastLength = 6   // pages of a segment, at least; each guess may cost a request
	fewGuesses  = 2   // guesses that are allowed before any has found records
	perGuess    = 7   // for this many pages that are known to exist, another guess is allowed
	stride      = 8   // the first guess is this many pages ahead, and each further guess this factor farther
	maxFailures = 2   // guesses that the server may refuse // Invariant 15
	mostParts   = 5   // guesses in a gap at the same time; there may be no records in it
	mostAtEnd   = 3   // guesses in the part where the list ends; some find no records
	endWeight   = 0.5 // the share of the unknown end of a list that probably has records
)

// Plan decides which pages of a list to request in advance. One goroutine calls its methods.
type Plan struct {
	scale    *scale
	key      string  // of the last record that the pass has read
	x        uint64  // its place
	span     float64 // how far a page reaches, here
	size     int     // records of the largest page
	pages    int     // pages that the pass has read
	left     float64 // pages that the pass has not read, by the total of the list; negative if unknown
	end      uint64  // the list seems to have no records after this place
	segments []*segment
	wanted   map[string]*segment // by the key after which a page was requested
	drops    []string

	guesses, failures int
	reading           *segment // the segment whose page the pass took last
	joined            int
	off               bool
}

// segment is a part of the list that is read in advance, or a guess that may find one.
type segment struct {
	x      uint64   // there are no records between this place and the first page
	after  []string // the keys after which pages were requested, in order; the newest may have no answer yet
	head   string   // the key of the last record
	headX  uint64
	span   float64
	guess  bool   // the answer to the guess has not arrived
	hole   bool   // there are no records just before x
	waits  bool   // an answer has not arrived
	broken bool   // a request has failed
	ended  bool   // it has reached the end of the list
	met    string // the key at which another segment continues; "" if none was met
}

// Request asks for the page after a key.
type Request struct {
	Key     string
	Guessed bool // there may be no record with this key
}

// New returns a plan for a pass that has read nothing.
func New() *Plan {
	return &Plan{end: math.MaxUint64, left: -1, wanted: make(map[string]*segment)}
}

// Passed notes the next page that the pass reads, with the keys of its records. The argument left is how many records
// come after the page, or negative if that is unknown. Passed returns how many of the records the pass must use. The
// others are also on a page that was requested in advance. If whole is true, it is always all of them.
func (p *Plan) Passed(keys []string, left int64, whole bool) (use int) {
	use = len(keys)
	if p.off || use == 0 {
		return use
	}
	if p.scale == nil {
		p.scale = scaleOf(keys)
	}
	if p.scale == nil || !p.scale.inOrder(p.key, keys) {
		p.Stop()
		return use
	}
	for i := len(keys) - 1; i >= 0 && !whole; i-- {
		if p.wanted[keys[i]] != nil {
			use = i + 1
			break
		}
	}
	p.size, p.span = max(p.size, len(keys)), p.spanOf(keys)
	p.key = keys[use-1]
	p.x, _ = p.scale.place(p.key)
	p.pages++
	if p.left = -1; left >= 0 {
		p.left = float64(left+int64(len(keys)-use)) / float64(p.size)
	}
	if p.end < p.x {
		p.end = math.MaxUint64 // the list has grown, or an answer was wrong
		p.failures++
	}
	p.forget()
	return use
}

// spanOf returns how far a page of the usual size reaches.
func (p *Plan) spanOf(keys []string) float64 {
	first, _ := p.scale.place(keys[0])
	last, _ := p.scale.place(keys[len(keys)-1])
	if len(keys) < 2 {
		return max(p.span, 1)
	}
	return max(float64(last-first)/float64(len(keys)-1)*float64(max(p.size, len(keys))), 1)
}

// forget drops the pages and segments before the position of the pass.
func (p *Plan) forget() {
	if t := p.wanted[p.key]; t != nil {
		for p.segments[0] != t {
			p.remove(p.segments[0])
		}
	}
	p.segments = slices.DeleteFunc(p.segments, func(s *segment) bool {
		for len(s.after) > 0 && p.scale.before(s.after[0], p.key) {
			p.drop(s, 0)
		}
		return len(s.after) == 0 && (s.head == "" || p.scale.before(s.head, p.key))
	})
}

func (p *Plan) drop(s *segment, i int) {
	p.drops = append(p.drops, s.after[i])
	delete(p.wanted, s.after[i])
	s.after = slices.Delete(s.after, i, i+1)
}

// remove removes a segment and its pages.
func (p *Plan) remove(s *segment) {
	for len(s.after) > 0 {
		p.drop(s, 0)
	}
	p.segments = slices.DeleteFunc(p.segments, func(t *segment) bool { return t == s })
}

// Stop ends the plan: the pass requests all further pages itself.
func (p *Plan) Stop() {
	p.off = true
	for len(p.segments) > 0 {
		p.remove(p.segments[0])
	}
}

// Stopped reports whether the plan has ended.
func (p *Plan) Stopped() bool { return p.off }

// Dropped returns the keys of the requests that are no longer needed, or that have failed. Call it before
// [Plan.Requests], which may name such a key again.
func (p *Plan) Dropped() []string {
	out := p.drops
	p.drops = nil
	return out
}

// Take reports whether the page after a key was requested in advance. If not, the pass must request it.
func (p *Plan) Take(key string) bool {
	s := p.wanted[key]
	if s == nil {
		p.segments = slices.DeleteFunc(p.segments, func(s *segment) bool { return s.head == key && len(s.after) == 0 })
		return false
	}
	return true
}

// Used notes that the pass uses the page after a key.
func (p *Plan) Used(key string) {
	s := p.wanted[key]
	if s == nil {
		return
	}
	if s != p.reading {
		p.reading = s
		p.joined++
	}
	delete(p.wanted, key)
	s.after = slices.DeleteFunc(s.after, func(k string) bool { return k == key })
}

// Segments returns how many segments the pass has read: 1 if it read one page after another.
func (p *Plan) Segments() int { return p.joined + 1 }

// Answered notes the answer to a request: the keys of its records, and whether it shows that no page follows. If it
// does, the answer is dropped: the pass requests the end of the list itself, after all other pages.
func (p *Plan) Answered(key string, keys []string, ends bool) {
	s := p.wanted[key]
	if s == nil {
		return
	}
	if !p.scale.inOrder(key, keys) {
		p.Stop()
		return
	}
	s.waits = false
	if ends = ends || len(keys) == 0; ends {
		p.end = min(p.end, p.lastPlace(s, keys))
	}
	guessed := s.guess
	if s.guess = false; guessed && (ends || p.inHole(s, keys)) {
		p.remove(s)
		return
	}
	if ends {
		s.ended = true
		p.drop(s, len(s.after)-1)
		return
	}
	s.head, s.span = keys[len(keys)-1], p.spanOf(keys)
	s.headX, _ = p.scale.place(s.head)
	for _, k := range keys {
		if t := p.wanted[k]; t != nil && t != s {
			s.met = k
		}
	}
	p.overtake(s)
}

// lastPlace returns the place of the last record of a page, or of the record before the page if it is empty.
func (p *Plan) lastPlace(s *segment, keys []string) uint64 {
	if len(keys) == 0 {
		return s.headX
	}
	x, _ := p.scale.place(keys[len(keys)-1])
	return x
}

// inHole reports whether there are no records between the guess s and the next segment. Then that segment begins at
// the guess.
func (p *Plan) inHole(s *segment, keys []string) bool {
	first, _ := p.scale.place(keys[0])
	for _, t := range p.segments[slices.Index(p.segments, s)+1:] {
		if t.guess {
			continue
		}
		if first < t.x {
			return false
		}
		t.x, t.hole = min(t.x, s.x), true
		return true
	}
	return false
}

// overtake removes the segments that s has passed without meeting one of their keys.
func (p *Plan) overtake(s *segment) {
	for _, t := range slices.Clone(p.segments[slices.Index(p.segments, s)+1:]) {
		if !t.guess && s.met == "" && t.headX < s.headX {
			p.remove(t)
		}
	}
}

// Failed notes that a request has failed. If refused is true, the server has refused it. Otherwise it was not sent, or
// it was cancelled.
func (p *Plan) Failed(key string, refused bool) {
	s := p.wanted[key]
	if s == nil {
		return
	}
	if refused {
		p.failures++
	}
	if s.guess {
		p.remove(s)
		return
	}
	s.waits, s.broken = false, true
	p.drop(s, slices.Index(s.after, key))
}

// gap is a part of the list that no segment has read.
type gap struct {
	from, to uint64
	pages    float64 // estimated
	open     bool    // the records may end anywhere in it
	last     bool    // the list ends in it
	parts    int     // guesses to send
}

// Requests returns at most room requests. A page is requested only if less than window pages are before it that the
// pass has not read yet.
func (p *Plan) Requests(room, window int) []Request {
	if p.off || p.scale == nil || p.pages < firstPages && p.left < stride*leastLength {
		return nil
	}
	var out []Request
	gaps, known := p.survey(float64(window), func(s *segment) {
		if p.wanted[s.head] != nil {
			s.met = s.head
		} else if len(out) < room {
			s.waits = true
			p.want(s, s.head)
			out = append(out, Request{Key: s.head})
		}
	})
	guesses := fewGuesses + int(known/perGuess) - p.guesses
	if p.failures >= maxFailures {
		return out
	}
	for _, key := range p.split(gaps, min(room-len(out), guesses)) {
		out = append(out, Request{Key: key, Guessed: true})
	}
	return out
}

// survey goes through the list from the position of the pass. It calls continues for each segment that can continue.
// It returns the gaps, and how many pages of the list are known to exist.
func (p *Plan) survey(window float64, continues func(*segment)) (gaps []gap, known float64) {
	x, span, ahead, closed, guessed := p.x, p.span, 0.0, p.wanted[p.key] != nil, false
	for _, s := range p.segments {
		if !closed && s.x > x {
			g := gap{from: x, to: s.x, pages: float64(s.x-x) / span, open: s.hole}
			if ahead < window && !guessed && !s.guess {
				gaps = append(gaps, g)
			}
			ahead += g.pages
		}
		ahead += float64(len(s.after))
		if guessed = s.guess; guessed {
			x, closed = s.x, false
			continue
		}
		known = ahead
		closed = s.ended || p.wanted[s.met] != nil
		if !s.waits && !closed && !s.broken && ahead < window {
			continues(s)
		}
		x, span = s.headX, s.span
	}
	if p.left >= 0 {
		known = p.left
	}
	if pages := window - ahead; !closed && !guessed && x < p.end && pages > 0 {
		g := gap{from: x, open: true, pages: pages}
		if p.left >= 0 {
			g.pages, g.open = min(pages, p.left-ahead), false
		}
		if rest := float64(p.end-x) / span; p.end != math.MaxUint64 {
			g.pages, g.open = min(g.pages, rest), false
		}
		if g.pages > 0 {
			g.to = x + uint64(min(g.pages*span, math.MaxUint64/4))
			if p.left < 0 {
				g.pages, g.last = g.pages*endWeight, true
			}
			gaps = append(gaps, g)
		}
	}
	return gaps, known + float64(p.pages)
}

// split divides the largest gaps into parts, and returns the guessed keys between the parts.
func (p *Plan) split(gaps []gap, guesses int) (keys []string) {
	for range guesses {
		best := -1
		for i, g := range gaps {
			if g.parts < g.most() && g.pages/float64(g.parts+2) >= leastLength && (best < 0 || g.pages/float64(g.parts+2) > gaps[best].pages/float64(gaps[best].parts+2)) {
				best = i
			}
		}
		if best < 0 {
			break
		}
		gaps[best].parts++
	}
	for _, g := range gaps {
		for i := range g.parts {
			x := g.from + uint64(float64(g.to-g.from)*float64(i+1)/float64(g.parts+1))
			if g.open {
				distance := math.Pow(stride, float64(i+1)) / (g.pages / endWeight)
				if distance > 1 {
					break
				}
				x = g.from + uint64(float64(g.to-g.from)*distance)
			}
			if key, ok := p.guess(x); ok {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// most returns how many guesses may be sent to a gap at the same time.
func (g *gap) most() int {
	if g.last {
		return mostAtEnd
	}
	return mostParts
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
	s := &segment{x: x, headX: x, span: p.span, guess: true, waits: true}
	at := sort.Search(len(p.segments), func(i int) bool { return p.segments[i].x > x })
	p.segments = slices.Insert(p.segments, at, s)
	p.want(s, key)
	return key, true
}

func (p *Plan) want(s *segment, key string) {
	p.wanted[key] = s
	s.after = append(s.after, key)
}
