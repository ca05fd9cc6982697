package paging

import "strconv"

// Position is one request of a list: a page number, offset, cursor, link or range. The zero value is the first
// request.
type Position struct {
	Kind  Kind
	Param string
	At    string

	// extra are further parameters of a probe, as a query string. A POST sends them in both its query and its body.
	// If placed is true, it sends them only in the same place as the paging parameters.
	Extra  string
	Placed bool
}

// Number returns the page number or offset.
func (at Position) Number() int64 {
	n, _ := strconv.ParseInt(at.At, 10, 64)
	return n
}

// String describes the position in an error message.
func (at Position) String() string {
	if at.Extra != "" {
		return "a probe with " + at.Extra
	}
	if at.Kind == KindNone {
		return "the first page"
	}
	switch at.Kind {
	case KindCursor:
		return "the page after a " + at.Param // the value may be long
	case KindLink:
		return "the page after a next link"
	case KindRange:
		return "the page after a range"
	}
	return string(at.Kind) + " " + at.At
}
