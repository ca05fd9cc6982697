package paging

import "strconv"

// Position is one request of a list: a page number, offset, cursor, link or range. The zero value is the first
// request.
type Position struct {
	Kind  Kind
	Param string
	At    string

	// Extra are further parameters of a probe, as a query string. A POST sends them in both its query and its body.
	// If Placed is true, it sends them only in the same place as the paging parameters.
	Extra  string
	Placed bool
}

// Number returns the page number or offset.
func (at Position) Number() int64 {
	n, _ := strconv.ParseInt(at.At, 10, 64)
	return n
}

// Counts reports whether the position is the number of a page or of a record. Then a record that is deleted shifts all
// records after it.
func (at Position) Counts() bool { return at.pager().Traits().Counts }

// Valid reports whether a position that was stored can be requested.
func (at Position) Valid() bool {
	if at.Kind == KindNone {
		return at.At == "" && at.Param == ""
	}
	return at.pager() != Pager(parameter{}) && at.pager().Valid(at)
}

// Send sets the parameters that request the position. ranged is the value of the Range header, or "".
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
