package paging

import (
	"fmt"
	"strconv"
	"strings"
)

// header is the pager that requests the next page with a Range header. Its value is a range like items=10-19, or a
// token from a header of the answer.
type header struct{ parameter }

// Type implements [Pager].
func (header) Type() string { return string(KindRange) }

// Traits implements [Pager].
func (header) Traits() Traits { return Traits{Computes: true} }

// Candidates returns the next range, according to the headers of the first page.
func (g header) Candidates(e *evidence) []Candidate {
	switch s := e.First.Signals; {
	case s.Token != "" && s.ranged:
		return []Candidate{{pager: g, at: Position{Kind: KindRange, At: s.Token}}}
	case s.rangeUnit != "":
		return []Candidate{{pager: g, at: rangeAt(s.rangeUnit, int64(e.First.N), int64(e.First.N))}}
	}
	return nil
}

// Next implements [Pager].
func (header) Next(at Position, l Last, p *Progress) (Position, bool) {
	unit := at.Kind == KindRange && at.Param != "" || p.Hint.Type == string(KindRange) && p.Hint.Page != ""
	return p.ranged(at, l.N), unit // without a unit, only a token leads to the next page
}

// Describe implements [Pager].
func (header) Describe(Position) string { return "the page after a range" }

// Valid implements [Pager].
func (header) Valid(at Position) bool { return at.At != "" }

// Send implements [Pager].
func (header) Send(at Position, _ func(name, value string)) (ranged string) { return at.At }

// NeedsNext implements [Pager].
func (header) NeedsNext(unit string) bool { return unit == "" }

func (p *Progress) ranged(at Position, n int) Position {
	from := int64(0)
	if _, rest, ok := strings.Cut(at.At, "="); ok {
		first, _, _ := strings.Cut(rest, "-")
		from, _ = strconv.ParseInt(first, 10, 64)
	}
	unit := at.Param
	if unit == "" {
		unit = p.Hint.Page
	}
	size := max(p.Step, 1)
	return rangeAt(unit, from+max(int64(n), 1), size)
}

func rangeAt(unit string, from, n int64) Position {
	return Position{Kind: KindRange, Param: unit, At: fmt.Sprintf("%s=%d-%d", unit, from, from+n-1)}
}
