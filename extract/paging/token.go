package paging

import (
	"slices"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

// token is the pager that requests the next page with a member of the last record. The member is named like a token:
// {"id": 17, "cursor": "x"}.
type token struct{ keyset }

// Traits implements [Pager].
func (token) Traits() Traits { return Traits{Computes: true} }

// Candidates returns the parameters for each member that is named like a token.
func (g token) Candidates(e *evidence) []Candidate { return slices.Concat(g.groups(e)...) }

// groups returns the candidates in the order in which they are tried. Each of the likeliest parameters of a member is
// tried in its own request, and all others in one request.
func (g token) groups(e *evidence) [][]Candidate {
	d, last, words := e.First.Doc, e.First.Last, schemas.Paging()
	var all [][]Candidate
	for _, field := range words.RecordTokens {
		v := d.Get(last, field)
		if !v.OK() || v.Nested() || d.IsEmpty(v) {
			continue
		}
		value := jsondoc.TextOf(d.Raw(v))
		names := records.Unique(slices.Concat([]string{field}, words.Parameters(schemas.ParamRecord), words.Parameters(schemas.ParamSince)))
		of := e.withMember(g, names, field, value)
		for _, c := range of[:min(len(of), 4)] {
			all = append(all, []Candidate{c})
		}
		all = append(all, of[min(len(of), 4):])
	}
	return all
}
