package signature

import (
	"bytes"
	"maps"
	"time"
)

// The method controlled() reports whether a candidate refuses every altered form of each sample. A scheme that accepts
// an altered sample would also accept forgeries.
func (l *learner) controlled(c candidate) bool {
	for i := range l.samples {
		for _, spoiled := range l.spoil(c.compiled, &l.samples[i].Delivery) {
			if _, _, matches := l.open(c.compiled, &spoiled); matches {
				return false
			}
		}
		if l.signsAnything(c.compiled, &l.samples[i].Delivery) {
			return false
		}
	}
	return !l.otherKey(c)
}

// spoil returns altered copies of a delivery. In each copy, one bit of one signed part is flipped.
func (l *learner) spoil(c *compiled, d *Delivery) []Delivery {
	var all []Delivery
	for _, bit := range []int{0, 4 * len(d.Body), 8*len(d.Body) - 1} {
		s := *d
		s.Body = bytes.Clone(d.Body)
		if len(s.Body) > 0 {
			s.Body[bit/8] ^= 1 << (bit % 8)
		} else {
			s.Body = []byte{0}
		}
		all = append(all, s)
	}
	for _, name := range c.signedHeaders() {
		s := *d
		s.Header = maps.Clone(d.Header)
		s.Header[name] = []string{flipped(d.Header[name][0])}
		all = append(all, s)
	}
	for kind, change := range map[Kind]func(*Delivery){
		Method: func(d *Delivery) { d.Method = flipped(d.Method) },
		Path:   func(d *Delivery) { d.Path = flipped(d.Path) },
		URL:    func(d *Delivery) { d.Query = flipped(d.Query) },
		Query:  func(d *Delivery) { d.Query = flipped(d.Query) },
	} {
		if uses(c.scheme.Content, kind) {
			s := *d
			change(&s)
			all = append(all, s)
		}
	}
	return all
}

// signedHeaders returns the signed headers, without the signature header.
func (c *compiled) signedHeaders() []string {
	var all []string
	if c.signsTS && c.ts.header != "" {
		all = append(all, c.ts.header)
	}
	if c.signsID && c.id.header != "" {
		all = append(all, c.id.header)
	}
	walk(c.scheme.Content, func(t Token) {
		if t.Kind == HeaderOf {
			all = append(all, canonical(t.Text))
		}
	})
	return all
}

// signsAnything reports whether a sample still verifies after a change in its signature header: an altered signature,
// or another time, id or key id.
func (l *learner) signsAnything(c *compiled, d *Delivery) bool {
	again := func(change func(*reading)) bool {
		_, r, _ := l.open(c, d)
		change(&r)
		l.scratch.segments = l.scratch.segments[:0]
		_ = c.assemble(c.content, d, &l.scratch, &r) // cannot fail: open has just assembled the same content
		_, reason := c.authentic(time.Time{}, &l.scratch, &r)
		return reason == ""
	}
	if again(func(r *reading) {
		for _, sig := range r.decoded[:r.n] {
			sig[0] ^= 1
		}
	}) {
		return true
	}
	return c.signsTS && again(func(r *reading) { r.ts = flipped(r.ts) }) ||
		c.signsID && again(func(r *reading) { r.id = flipped(r.id) }) ||
		uses(c.scheme.Content, KeyID) && again(func(r *reading) { r.keyID = flipped(r.keyID) })
}

func flipped(text string) string {
	if text == "" {
		return "0"
	}
	b := []byte(text)
	b[len(b)-1] ^= 1
	return string(b)
}

// otherKey reports whether a sample verifies with an altered secret. It does not try public keys: a public key
// with a flipped bit is usually invalid, and the other controls are enough.
func (l *learner) otherKey(c candidate) bool {
	if c.scheme.Algorithm.public() {
		return false
	}
	var others []usable
	for _, k := range l.Hints.Keys {
		raw, err := secretBytes(k.Secret.Reveal(), c.scheme.KeyEncoding)
		if err != nil || k.PublicKey != "" {
			continue
		}
		raw[0] ^= 1
		others = append(others, usable{Key{Label: k.Label}, newChecker(c.scheme, raw)})
	}
	spoiled := *c.compiled
	spoiled.keys = others
	for i := range l.samples {
		if _, _, matches := l.open(&spoiled, &l.samples[i].Delivery); matches {
			return true
		}
	}
	return false
}
