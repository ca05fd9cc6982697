package paging

import "fmt"

// pagers are all ways of paging. If several fit, the first one decides.
var pagers = []Pager{page{}, header{}, offset{}, keyset{}, cursor{}, link{}, token{}, moment{}}

// pagerOf returns the pager of a type. For other types, such as "none", it returns a pager without candidates.
func pagerOf(name string) Pager {
	for _, g := range pagers {
		if g.Type() == name {
			return g
		}
	}
	return parameter{}
}

func (at Position) pager() Pager { return pagerOf(string(at.Kind)) }

// Counts reports whether the position is the number of a page or of a record. If it is, a deleted record shifts all
// records after it.
func (at Position) Counts() bool { return at.pager().Traits().Counts }

// Valid reports whether a position that was stored can be requested.
func (at Position) Valid() bool {
	switch at.Kind {
	case KindNone:
		return at.At == "" && at.Param == ""
	case KindPage, KindOffset, KindCursor, KindLink, KindRange:
		return at.pager().Valid(at)
	}
	return false // some types of pagers are not kinds of positions: a position of since_id has the kind cursor
}

// Send sets the parameters that request the position. The result `ranged` is the value of the Range header, or "".
func (at Position) Send(set func(name, value string)) (ranged string) {
	if at.Kind == KindNone {
		return ""
	}
	return at.pager().Send(at, set)
}

// String describes the position in an error message.
func (at Position) String() string {
	if at.Extra != "" {
		return "a probe with " + at.Extra
	}
	if at.Kind == KindNone {
		return "the first page"
	}
	return at.pager().Describe(at)
}

// Check returns an error if the next position does not lead forward.
func (at Position) Check(next Position) error {
	if next == at || next.Kind == at.Kind && next.Counts() && next.Number() <= at.Number() {
		return fmt.Errorf("the position after %s is %s, which does not lead forward", at, next)
	}
	return nil
}
