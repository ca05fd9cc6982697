package signature

import (
	"errors"
	"fmt"
)

// Compile returns a Verifier that tries schemes in order. Each scheme uses the keys for its algorithm. Compile returns
// an error if a scheme has no key, or if a secret is empty. If several schemes have errors, the result joins the first
// error of each.
func Compile(schemes []Scheme, keys []Key) (*Verifier, error) {
	v := &Verifier{}
	v.scratch.New = func() any { return &scratch{} }
	var errs []error
	for _, s := range schemes {
		c, err := compile(s, keys)
		if err != nil {
			errs = append(errs, fmt.Errorf("compile scheme %s: %w", s.Name, err))
			continue
		}
		v.schemes = append(v.schemes, c)
	}
	if len(schemes) == 0 {
		errs = append(errs, errors.New("compile schemes: no scheme given"))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return v, nil
}

type compiled struct {
	scheme  Scheme
	header  string // canonical name of the signature header
	ts, id  source
	content []segment
	keys    []usable

	signsTS, signsID bool // the time, or the id, is a separate part of the signed content, not only within the body
	identified       bool // the id is signed: as a separate part, or within the body
}

type usable struct {
	Key
	checker
}

func compile(s Scheme, keys []Key) (*compiled, error) {
	if faults := s.Faults(); len(faults) > 0 {
		return nil, faults[0]
	}
	s = s.filled()
	var usables []usable
	for _, k := range keys {
		if !k.Serves(s) {
			continue
		}
		material, err := k.material(s)
		if err != nil {
			return nil, fmt.Errorf("secret %s %w", k.Label, err)
		}
		usables = append(usables, usable{k, newChecker(s, material)})
	}
	if len(usables) == 0 {
		return nil, fmt.Errorf("no key for %s", s.Algorithm)
	}
	return s.build(usables), nil
}

// build compiles a scheme, which must have no faults.
func (s Scheme) build(keys []usable) *compiled {
	return &compiled{
		scheme: s, keys: keys, header: canonical(s.Header), ts: newSource(s.Timestamp.From), id: newSource(s.EventID),
		content: segments(s.Content), signsTS: uses(s.Content, TS), signsID: uses(s.Content, ID), identified: s.signsEventID(),
	}
}

type source struct {
	from    From
	header  string
	pointer []string
}

func newSource(f From) source {
	if f.nowhere() {
		return source{}
	}
	s := source{from: f}
	if name, ok := f.header(); ok {
		s.header = canonical(name)
	}
	if p, ok := f.pointer(); ok {
		s.pointer, _ = pointerOf(p) // cannot fail: Faults has checked the pointer
	}
	return s
}

// read returns the value at the place s, or "" if the delivery has no such value. The parameter parsed is the value
// that the caller has found in the signature header; read returns it if the place is [Parsed]. The reason is Malformed
// if a header has several values, or a value that is too long or not printable.
func (s *source) read(d *Delivery, parsed string) (string, Reason) {
	switch {
	case s.from == Parsed:
		return parsed, ""
	case s.header != "":
		v, reason := single(d.Header, s.header)
		switch {
		case reason == Missing:
			return "", "" // if the caller needs the value, it reports that the value is missing
		case reason == "" && (len(v) > maxHeader || !printable(v)):
			return "", Malformed
		}
		return v, reason
	case s.pointer != nil:
		return lookUp(d.Body, s.pointer), ""
	}
	return "", ""
}

type segment struct {
	kind   Kind
	fixed  []byte
	header string
	of     []segment
}

func segments(ts []Token) []segment {
	var all []segment
	for _, t := range ts {
		all = append(all, segment{
			kind: t.Kind, fixed: []byte(t.Text), header: canonical(t.Text), of: segments(t.Of),
		})
	}
	return all
}
