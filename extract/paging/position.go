package paging

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

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

// Kind is the form of a position.
type Kind string

const (
	KindNone   Kind = "" // the first request
	KindPage   Kind = "page"
	KindOffset Kind = "offset"
	KindCursor Kind = "cursor"
	KindLink   Kind = "link"  // all parameters of a next link, as a query string
	KindRange  Kind = "range" // value of a Range header
)

func (at Position) or(kind Kind, usual string) string {
	if at.Kind == kind {
		return at.Param
	}
	return usual
}

func linkPosition(name, v string) Position {
	kind := KindCursor
	if _, err := strconv.ParseUint(v, 10, 62); err == nil && len(v) < 16 {
		switch words := schemas.Paging(); {
		case slices.Contains(words.Parameters(schemas.ParamPage), name):
			kind = KindPage
		case slices.Contains(words.Parameters(schemas.ParamOffset), name):
			kind = KindOffset
		}
	}
	return Position{Kind: kind, Param: name, At: v}
}

// Query holds the parameters of a probe.
type Query map[string]string

// Add adds a parameter that the query does not have yet. It ignores an empty value.
func (q Query) Add(name, value string) {
	if _, ok := q[name]; !ok && value != "" {
		q[name] = value
	}
}

// Encode returns a query string.
func (q Query) Encode() string {
	v := make(url.Values, len(q))
	for name, value := range q {
		v.Set(name, value)
	}
	return v.Encode()
}

// Names returns the names, sorted.
func (q Query) Names() string { return strings.Join(slices.Sorted(maps.Keys(q)), ", ") }
