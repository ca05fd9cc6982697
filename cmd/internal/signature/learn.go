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

// Hints are what is known about a sender before learning.
type Hints struct {
	Header    string // the header that should have the signature; other headers are tried only if no sample has it
	Keys      []Key  // at least one key; a public key is tried only with its own algorithm
	PublicURL string // URL of the endpoint, which some senders sign; "" if not known
	AllowWeak bool   // accept HMAC-SHA1
}

// MinBodies is how many deliveries with different bodies [Learn] needs.
const MinBodies = 3

// Errors of [Learn].
var (
	// ErrFew means that fewer than MinBodies different bodies were given.
	ErrFew = errors.New("too few deliveries with different bodies")
	// ErrNone means that no scheme verifies all samples, or that the only scheme that verifies them also verifies
	// altered samples.
	ErrNone = errors.New("no known scheme makes these signatures with these secrets")
	// ErrAmbiguous means that several schemes verify all samples, and each scheme signs different content.
	ErrAmbiguous = errors.New("more than one scheme makes these signatures")
)

// Finding is the result of [Learn].
type Finding struct {
	Scheme  Scheme   // the scheme that was found
	Others  []Scheme // with ErrAmbiguous: the schemes that verify all samples, one of each class (see Learn)
	Label   string   // label of the key that has made the signatures
	Judged  int      // number of samples with the signature header; only these are tried
	Aside   int      // number of samples without the signature header; any scheme would refuse them
	Bodies  int      // number of different bodies among the judged samples
	Tried   int      // number of candidates that were tried
	Partial int      // how many samples the best candidate verifies
	Failing []int    // with ErrNone: indexes of the samples that the best candidate does not verify
	Late    int      // number of samples that a Verifier would have refused on arrival, because of their time
}

// Timed reports whether a time is signed.
func (f Finding) Timed() bool { return !f.Scheme.Timestamp.From.nowhere() }

// Learn finds the scheme of a sender. It tries a finite set of schemes on the samples that have the signature
// header. These samples must have at least [MinBodies] different bodies. Schemes with the same signed content and
// the same signatures are one class. Learn accepts a scheme only if exactly one class verifies all these samples, and
// if no sample verifies after Learn has flipped one bit of a signed part or of the secret. A match by chance is as
// improbable as guessing a MAC. The error is [ErrFew], [ErrNone] or [ErrAmbiguous].
//
// Learn takes milliseconds for each sample of usual size, whatever the sample contains.
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
			f.Others = append(f.Others, c.scheme)
		}
		return f, ErrAmbiguous
	}
	found := classes[0]
	if !l.controlled(found) {
		return f, ErrNone
	}
	f.Scheme, f.Label, f.Partial = found.scheme, found.label, f.Judged
	f.Scheme.Name = "learned"
	f.Late = l.late(found)
	return f, nil
}

// learner has the state of one call of Learn. Its first sample is the sample with the smallest body. The first sample
// rules out nearly all candidates, so it should be fast to check.
type learner struct {
	Hints
	headers []string // canonical names of the headers that may have the signature
	samples []Sample
	places  []int // for each element of samples: its index in the argument of Learn
	keys    map[keyUse][]usable
	scratch scratch
	tried   int
	partial int   // how many samples the best candidate verifies
	failing []int // indexes of the samples that the best candidate does not verify
}

type keyUse struct {
	Algorithm
	KeyEncoding
}

type candidate struct {
	*compiled
	label string
	class [sha256.Size]byte // equal for candidates with the same signed content and signatures
}

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

// search tries all candidates, and returns those that verify all samples. If several of them have the same signed
// content and the same signatures (they are one class: see [Learn]), it returns only the first. The preferred candidate
// comes first.
func (l *learner) search() []candidate {
	var found []candidate
	for s := range l.candidates() {
		c := l.compile(s)
		if c == nil {
			continue
		}
		l.tried++
		label, class, ok := l.verifyAll(c)
		if ok && len(c.scheme.Faults()) == 0 && !slices.ContainsFunc(found, func(f candidate) bool { return f.class == class }) {
			found = append(found, candidate{c, label, class})
		}
	}
	for i := range found {
		found[i].scheme.EventID = l.eventID(found[i].scheme)
		if c, err := compile(found[i].scheme, l.Hints.Keys); err == nil {
			found[i].compiled = c
		}
	}
	return found
}

// compile works like [Compile], but decodes each key only once for all candidates. It ignores keys that
// the scheme cannot use or decode. It returns nil if no key is left.
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

func (l *learner) verifyAll(c *compiled) (label string, class [sha256.Size]byte, ok bool) {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n", c.scheme.Algorithm)
	good, failing := 0, []int(nil)
	for i := range l.samples {
		by, r, matches := l.open(c, &l.samples[i].Delivery)
		if !matches {
			if i == 0 {
				return "", class, false // most candidates end here
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

// The method open() verifies the signature of a delivery, but not its time. Afterwards the signed content is in
// l.scratch.
func (l *learner) open(c *compiled, d *Delivery) (usable, reading, bool) {
	l.scratch.buf, l.scratch.segments = l.scratch.buf[:0], l.scratch.segments[:0]
	var r reading
	if c.read(d, &l.scratch, &r) != "" {
		return usable{}, r, false
	}
	by, reason := c.authentic(time.Time{}, &l.scratch, &r)
	return by, r, reason == ""
}

// eventID returns the place of the event id. If the scheme signs an id as a part of the content, this is the place of
// that id. Otherwise the result is a usual place in the signed body.
func (l *learner) eventID(s Scheme) From {
	if uses(s.Content, ID) {
		return s.EventID
	}
	for _, f := range []From{FromJSON("/id"), FromJSON("/event_id")} {
		if l.identifies(f) {
			return f
		}
	}
	return None
}

// identifies reports whether a value may be the id of events. All samples must have the value, and only samples with
// equal bodies may have equal values.
func (l *learner) identifies(f From) bool {
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
