package paging

import (
	"github.com/penstock-data/penstock/schemas"
)

// keyset is the pager that requests the next page with the id of the last record: starting_after=17.
type keyset struct{ parameter }

// Type implements [Pager].
func (keyset) Type() string { return "since_id" }

// Traits implements [Pager].
func (keyset) Traits() Traits { return Traits{Computes: true, Blind: true} }

// Candidates returns requests with the id of the last record. If the key is unknown, the requests send the value of a
// member that is named like an id.
func (g keyset) Candidates(e *evidence) []Candidate {
	names := schemas.Paging().Parameters(schemas.ParamSince)
	if e.lastID != "" {
		return e.named(g, names)
	}
	field, value := e.identity()
	return e.withMember(g, names, field, value)
}

// Second implements [Pager].
func (keyset) Second(e *evidence, param string) Position {
	return Position{Kind: KindCursor, Param: param, At: e.lastID}
}

// Next implements [Pager].
func (keyset) Next(at Position, l Last, p *Progress) (Position, bool) {
	return Position{Kind: KindCursor, Param: at.or(KindCursor, p.Named("starting_after", "since_id", "cursor")), At: l.ID}, l.ID != ""
}
