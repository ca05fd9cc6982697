package signature

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Sample is a delivery that was captured before its scheme was known.
type Sample struct {
	Delivery
	Received time.Time
}

// Hints are what is known of a sender before anything is learned.
type Hints struct {
	Header    string // that should carry the signature; others are looked at only where no sample has it
	Keys      []Key  // at least one; public keys are tried for what they are
	PublicURL string // of the endpoint, for content that holds it; "" where it is not known
	AllowWeak bool   // SHA-1 is accepted
}

// MinBodies is how many deliveries with different bodies it takes to learn.
const MinBodies = 3

// Why nothing was learned.
var (
	// ErrFew is returned for less than MinBodies different bodies.
	ErrFew = errors.New("too few deliveries with different bodies")
	// ErrNone is returned where no scheme verifies all samples.
	ErrNone = errors.New("no scheme that is known makes these signatures with these secrets")
	// ErrAmbiguous is returned where more than one does, each over other content.
	ErrAmbiguous = errors.New("more than one scheme makes these signatures")
)

// Finding is what [Learn] has come to.
type Finding struct {
	Scheme  Scheme   // the one that was found
	Others  []Scheme // where there are several: each stands for a class, and none is chosen
	Label   string   // of the key that made the signatures
	Judged  int      // samples that carry the header
	Aside   int      // samples that do not: they would be refused whatever the scheme
	Bodies  int      // different ones among those judged
	Tried   int      // candidates
	Partial int      // how many samples the best candidate verifies where none verifies all
	Failing []int    // places of the samples which that candidate does not
	Late    int      // samples that were older than the window when they came
}

// Timed reports whether a time is signed.
func (f Finding) Timed() bool { return !f.Scheme.Timestamp.From.nowhere() }

// Learn looks for the scheme of a sender. It goes through a finite set of
// candidates and accepts only if exactly one class of them, that is one signed
// content and one set of signatures, verifies every sample that carries the
// header, of which [MinBodies] at least differ in their bodies, and if each
// sample stops to verify once a bit of anything that is signed, or of the
// secret, is another. A chance match is as likely as a forged MAC. The error is
// [ErrFew], [ErrNone] or [ErrAmbiguous].
//
// It takes milliseconds a sample of usual size, and nothing that a sample holds
// makes it take much more.
func Learn(samples []Sample, h Hints) (Finding, error) {
	l := &learner{Hints: h, keys: map[keyUse][]usable{}}
	l.choose(samples)
	f := Finding{Judged: len(l.samples), Aside: len(samples) - len(l.samples), Bodies: l.bodies()}
	if f.Bodies < MinBodies {
		return f, ErrFew
	}
	classes := l.search()
	f.Tried, f.Partial = l.tried, l.partial
	if len(classes) == 0 {
		f.Failing = l.failing
		return f, ErrNone
	}
	if len(classes) > 1 {
		for _, c := range classes {
			f.Others = append(f.Others, c.Scheme)
		}
		return f, ErrAmbiguous
	}
	found := classes[0]
	if !l.controlled(found) {
		return f, ErrNone
	}
	f.Scheme, f.Label, f.Partial = found.Scheme, found.label, f.Judged
	f.Scheme.Name = "learned"
	f.Late = l.late(found)
	return f, nil
}

// learner holds the samples, the one with the least body first: it weeds out
// nearly all candidates.
type learner struct {
	Hints
	headers []string // canonical names that may carry the signature
	samples []Sample
	places  []int // of samples, among those that Learn was given
	keys    map[keyUse][]usable
	scratch scratch
	tried   int
	partial int   // the most samples that one candidate verifies
	failing []int // places of those it does not
}

// keyUse is a way of using keys.
type keyUse struct {
	Algorithm
	KeyEncoding
}

// candidate is a scheme that verifies all samples.
type candidate struct {
	*compiled
	label string
	class [sha256.Size]byte // of those that sign the same with the same signatures
}

// choose takes the samples that can be judged: those with the header.
func (l *learner) choose(samples []Sample) {
	header := canonical(l.Header)
	has := func(s Sample) bool { return len(s.Header[header]) > 0 }
	l.headers = []string{header}
	any := slices.ContainsFunc(samples, has)
	for i, s := range samples {
		if !any || has(s) {
			l.samples, l.places = append(l.samples, s), append(l.places, i)
		}
	}
	if !any {
		l.headers = shared(samples)
	}
	order := make([]int, len(l.samples))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return len(l.samples[a].Body) - len(l.samples[b].Body) })
	sorted, places := make([]Sample, len(order)), make([]int, len(order))
	for i, o := range order {
		sorted[i], places[i] = l.samples[o], l.places[o]
	}
	l.samples, l.places = sorted, places
}

// shared are the headers that all samples have, sorted.
func shared(samples []Sample) []string {
	var names []string
	for i, s := range samples {
		if i == 0 {
			for name := range s.Header {
				names = append(names, name)
			}
			continue
		}
		names = slices.DeleteFunc(names, func(name string) bool { return len(s.Header[name]) == 0 })
	}
	slices.Sort(names)
	return names
}

func (l *learner) bodies() int {
	different := map[[sha256.Size]byte]bool{}
	for _, s := range l.samples {
		different[sha256.Sum256(s.Body)] = true
	}
	return len(different)
}

// search gives one candidate of each class that verifies all samples, in the
// order of preference.
func (l *learner) search() []candidate {
	var found []candidate
	for s := range l.lattice() {
		c := l.compile(s)
		if c == nil {
			continue
		}
		l.tried++
		label, class, ok := l.all(c)
		if ok && len(c.Faults()) == 0 && !slices.ContainsFunc(found, func(f candidate) bool { return f.class == class }) {
			found = append(found, candidate{c, label, class})
		}
	}
	for i := range found {
		found[i].EventID = l.eventID(found[i].Scheme)
		if c, err := compile(found[i].Scheme, l.Hints.Keys); err == nil {
			found[i].compiled = c
		}
	}
	return found
}

// compile is [Compile] for a scheme that is known to be sound. Keys are read once
// for all candidates; those that are not of the encoding are passed over, and
// without any there is no candidate.
func (l *learner) compile(s Scheme) *compiled {
	use := keyUse{s.Algorithm, s.KeyEncoding}
	keys, known := l.keys[use]
	if !known {
		for _, k := range l.Hints.Keys {
			if !k.Serves(s) {
				continue
			}
			if material, err := k.material(s); err == nil {
				keys = append(keys, usable{Key{Label: k.Label}, newChecker(s, material)})
			}
		}
		l.keys[use] = keys
	}
	if len(keys) == 0 {
		return nil
	}
	return s.build(keys)
}

// all holds a candidate against all samples.
func (l *learner) all(c *compiled) (label string, class [sha256.Size]byte, ok bool) {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n", c.Algorithm)
	good, failing := 0, []int(nil)
	for i := range l.samples {
		by, r, matches := l.open(c, &l.samples[i].Delivery)
		if !matches {
			if i == 0 {
				return "", class, false // nearly always
			}
			failing = append(failing, l.places[i])
			continue
		}
		good++
		label = by.Label
		content := digestOf(l.scratch.segments)
		fmt.Fprintf(h, "%x %x\n", content, r.decoded[:r.n])
	}
	if good > l.partial {
		slices.Sort(failing)
		l.partial, l.failing = good, failing
	}
	h.Sum(class[:0])
	return label, class, good == len(l.samples)
}

// open verifies one delivery, its time aside. What was signed stays in the
// scratch.
func (l *learner) open(c *compiled, d *Delivery) (usable, reading, bool) {
	l.scratch.buf, l.scratch.segments = l.scratch.buf[:0], l.scratch.segments[:0]
	var r reading
	if c.read(d, &l.scratch, &r) != "" {
		return usable{}, r, false
	}
	by, reason := c.authentic(time.Time{}, &l.scratch, &r)
	return by, r, reason == ""
}

// eventID is where a scheme's deliveries have their id: what is signed as one,
// or else the first place in the body, which is signed, that holds another id for every other body.
func (l *learner) eventID(s Scheme) From {
	if uses(s.Content, ID) {
		return s.EventID
	}
	for _, f := range []From{FromJSON("/id"), FromJSON("/event_id")} {
		if l.tells(f) {
			return f
		}
	}
	return None
}

// tells reports whether a place holds an id in all samples, and the same one
// only where the bodies are the same.
func (l *learner) tells(f From) bool {
	bodies := map[string][]byte{}
	source := newSource(f)
	for i := range l.samples {
		d := &l.samples[i].Delivery
		id, reason := source.read(d, "")
		if id == "" || reason != "" {
			return false
		}
		if body, seen := bodies[id]; seen && !bytes.Equal(body, d.Body) {
			return false
		}
		bodies[id] = d.Body
	}
	return true
}

// late counts the samples that a verifier would have refused for their time.
func (l *learner) late(c candidate) int {
	n := 0
	for i := range l.samples {
		s := &l.samples[i]
		var scratch scratch
		if _, reason := c.verify(s.Received, &s.Delivery, &scratch); reason != "" {
			n++
		}
	}
	return n
}
