// Package segments plans how to read a list in several segments at the same time. The list must be sorted by a key. Each
// page is requested with the key of the record before it, as in starting_after=17.
//
// To begin a segment far ahead, a request has a guessed key. The last record of the answer has a real key, and the
// segment begins after this record. The pages of several segments are requested at the same time. The pass reads the
// segments in the order of the list.
//
// Suppose that a page was requested with the key 17. The pass uses this page only if it has just read the record with
// the key 17. So it uses only answers to requests that it would also send if it read one page after another. Perhaps the
// pass never reads the record with this key: the record was deleted, or the server answered wrongly. Then the pass
// requests the pages itself.
//
// The package sends no requests. A [Plan] names the keys to request, and takes what the answers contain.
package segments

import (
	"math"
	"slices"
	"time"
)

const maxFailures = 2 // guesses that the server may refuse // Invariant 15

// Plan decides which pages of a list to request in advance. One goroutine calls its methods.
type Plan struct {
	scale    *scale
	key      string  // key of the last record that the pass has read
	x        uint64  // place of this key on the scale
	near     density // density near the position of the pass
	all      density // density of the list, as far as it is known
	dense    bool    // the keys so far have no gaps: each number is the key of a record
	latest   uint64  // no key in this form can have a later place; math.MaxUint64 if this is unknown
	size     int     // records of the largest page
	pages    int     // pages that the pass has read
	left     float64 // pages that the pass has not read, according to the total of the list; negative if unknown
	end      uint64  // the list seems to have no records after this place
	now      time.Time
	segments []*segment
	wanted   map[string]*segment // segments by the key in a request
	drops    []string

	guesses, failures int
	reading           *segment // the segment whose page the pass took last
	joined            int
	off               bool
}

// segment is a part of the list that is requested in advance, or a guess that may find such a part.
type segment struct {
	x      uint64   // there are no records between this place and the first page
	after  []string // the keys in the requests for pages, in order; the newest request may have no answer yet
	head   string   // the key of the last record of the newest page
	headX  uint64
	near   density
	guess  bool   // the segment is a guess, and its answer has not arrived
	waits  bool   // an answer has not arrived
	broken bool   // a request has failed
	ended  bool   // the segment has reached the end of the list
	met    string // the key at which another segment continues; "" if none was met
}

// Request asks for the page after a key.
type Request struct {
	Key     string
	Guessed bool // there may be no record with this key
}

// New returns a plan for a pass that has read nothing. Keys that hold times are not expected to be later than now.
func New(now time.Time) *Plan {
	return &Plan{now: now, end: math.MaxUint64, latest: math.MaxUint64, left: -1, dense: true, wanted: make(map[string]*segment)}
}

// Skip notes that the pass has read pages without a call of [Plan.Passed].
func (p *Plan) Skip() { p.key = "" }

// Passed notes the next page that the pass reads, with the keys of its records. It also gets the number of records that
// come after the page, or a negative number if this is unknown. Passed returns how many of the records the pass must
// use. The other records are also on a page that was requested in advance. If the argument `whole` is true, the pass
// must use all records.
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
	p.size = max(p.size, len(keys))
	p.near = p.measure(p.near, p.key, keys)
	p.key = keys[use-1]
	p.x, _ = p.scale.place(p.key)
	if p.pages++; p.pages == 1 {
		p.latest = p.scale.latest(p.now)
	}
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

// Answered notes the answer to a request, with the keys of its records. If the answer shows that no page follows, the
// argument `ends` is true. Such an answer is dropped. The pass requests the end of the list itself, after all other
// pages.
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
	if guessed {
		key = ""
	}
	s.head, s.near = keys[len(keys)-1], p.measure(s.near, key, keys)
	s.headX, _ = p.scale.place(s.head)
	for _, k := range keys {
		if t := p.wanted[k]; t != nil && t != s {
			s.met = k
		}
	}
	p.overtake(s)
}

// lastPlace returns the place of the last record of a page. If the page is empty, it returns the place of the record
// before the page.
func (p *Plan) lastPlace(s *segment, keys []string) uint64 {
	if len(keys) == 0 {
		return s.headX
	}
	x, _ := p.scale.place(keys[len(keys)-1])
	return x
}

// inHole reports whether there are no records between the guess s and the next segment. If so, it moves the beginning
// of that segment to the guess.
func (p *Plan) inHole(s *segment, keys []string) bool {
	first, _ := p.scale.place(keys[0])
	for _, t := range p.segments[slices.Index(p.segments, s)+1:] {
		if t.guess {
			continue
		}
		if first < t.x {
			return false
		}
		t.x = min(t.x, s.x)
		return true
	}
	return false
}

// overtake removes each later segment whose pages all lie before the last record of s. But if s ends where another
// segment begins, overtake removes nothing.
func (p *Plan) overtake(s *segment) {
	for _, t := range slices.Clone(p.segments[slices.Index(p.segments, s)+1:]) {
		if !t.guess && s.met == "" && t.headX < s.headX {
			p.remove(t)
		}
	}
}

// Failed notes that a request has failed. If the server has refused the request, the argument `refused` is true.
// Otherwise the request was not sent, or was cancelled.
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

func (p *Plan) want(s *segment, key string) {
	p.wanted[key] = s
	s.after = append(s.after, key)
}
