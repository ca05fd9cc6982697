package paging

import (
	"context"
	"slices"
	"strconv"
)

// Pager is one way of paging. A new pager needs three things: a file with a type that embeds [parameter], an element of
// the variable `pagers`, and an entry in schemas/paging/vocabulary.yaml.
type Pager interface {
	// Type is the name of the pager in the vocabulary and in the configuration. A position belongs to the pager whose
	// Type is the same word as the [Kind] of the position.
	Type() string

	// Traits says how the pager differs from other pagers.
	Traits() Traits

	// Candidates returns the requests that may return the second page, the likeliest first.
	Candidates(e *evidence) []Candidate

	// Second returns the position of the second page for a parameter. If the first page does not show this position,
	// the result has an empty At.
	Second(e *evidence, param string) Position

	// Next returns the position after a page. The result ok is false if the page does not show that position.
	Next(at Position, l Last, p *Progress) (next Position, ok bool)

	// Following returns the next position. It does not need the page at the current position, so both pages can be
	// requested at the same time.
	Following(at Position, p *Progress) (next Position, ok bool)

	// Judge says what the answer to a candidate means.
	Judge(ctx context.Context, p *Probe, t Trial) (Verdict, error)

	// Confirm sends further probes to test a candidate that Judge accepted. It is called on the pager of the
	// candidate's position.
	Confirm(ctx context.Context, p *Probe, t Trial) (accepted bool, err error)

	// Describe returns a position in words. Valid checks a position that was stored. Send puts a position into a
	// request: into the parameters, or into the Range header.
	Describe(at Position) string
	Valid(at Position) bool
	Send(at Position, set func(name, value string)) (ranged string)

	// NeedsNext reports whether a list ends when an answer states no next page.
	NeedsNext(param string) bool
}

// Traits say how a pager differs from other pagers.
type Traits struct {
	Computes bool // Next needs no signals in the answer
	Blind    bool // candidates are tried even if the first page does not announce more records
	Counts   bool // positions are numbers of pages or records
}

// Last is the page that was read last.
type Last struct {
	N       int
	ID      string // id of the last record, or ""
	Signals Signals
}

// parameter is the common part of most pagers: the position is the value of one parameter.
type parameter struct{}

// Type implements [Pager].
func (parameter) Type() string { return "" }

// Traits implements [Pager].
func (parameter) Traits() Traits { return Traits{} }

// Candidates implements [Pager].
func (parameter) Candidates(*evidence) []Candidate { return nil }

// Second implements [Pager].
func (parameter) Second(e *evidence, param string) Position {
	return linkPosition(param, e.First.Signals.Token)
}

// Next implements [Pager].
func (parameter) Next(Position, Last, *Progress) (Position, bool) { return Position{}, false }

// Following implements [Pager].
func (parameter) Following(Position, *Progress) (Position, bool) { return Position{}, false }

// Judge accepts an answer with other records. It accepts an empty answer if the list may end there.
func (parameter) Judge(_ context.Context, p *Probe, t Trial) (Verdict, error) {
	switch {
	case t.Like == OtherRecords:
		return Second, nil
	case t.Like != NoRecords:
		return Rejected, nil
	case t.Silent, t.mayBeTwoPages(p):
		return Accepted, nil
	case t.Echoed:
		return Second, nil
	}
	return Rejected, nil
}

// Confirm implements [Pager].
func (parameter) Confirm(context.Context, *Probe, Trial) (bool, error) { return true, nil }

// Describe implements [Pager].
func (parameter) Describe(at Position) string { return string(at.Kind) + " " + at.At }

// Valid implements [Pager].
func (parameter) Valid(at Position) bool { return at.At != "" && at.Param != "" }

// Send implements [Pager].
func (parameter) Send(at Position, set func(name, value string)) (ranged string) {
	set(at.Param, at.At)
	return ""
}

// NeedsNext implements [Pager].
func (parameter) NeedsNext(string) bool { return false }

// Candidate is a request that may return the second page.
type Candidate struct {
	pager Pager
	at    Position
	field string // the member of the last record whose value is sent; "" if it is the key
}

// Trial is the answer to a candidate.
type Trial struct {
	Candidate Candidate
	Page      *Page
	Like      Likeness // how Page differs from the first page
	Silent    bool     // the first page announces no more records
	Echoed    bool     // Page states the requested page number, and the first page states another number
}

// mayBeTwoPages reports whether the list may have only the pages 0 and 1, because page 2 was empty.
func (t Trial) mayBeTwoPages(p *Probe) bool {
	at := t.Candidate.at
	return t.Like == NoRecords && !t.Silent && at.Kind == KindPage && at.At != "1" && p.First.Signals.Page < 0
}

// Verdict is what a pager concludes from an answer.
type Verdict int

// The verdicts.
const (
	Rejected Verdict = iota
	Accepted         // the parameter may be right; the answer is not the second page
	Second           // the answer is the second page
	Done             // further probes have decided everything
)

// echoed() returns the parameter that an answer names, if it is one of the usual parameters.
func echoed(n named, usual []string) []string {
	if n.name != "" && slices.Contains(usual, n.name) {
		return []string{n.name}
	}
	return nil
}

func validNumber(at Position) bool {
	_, err := strconv.ParseUint(at.At, 10, 62)
	return err == nil && at.Param != ""
}
