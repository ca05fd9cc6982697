package paging

import (
	"strconv"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/schemas"
)

// searchOrder is the order in which candidates are tried one by one. Each entry takes the next n candidates of a
// kind.
type searchOrder []struct {
	kind string
	n    int
}

var (
	usualOrder = searchOrder{
		{"page", 1}, {"offset", 6}, {"page", 5}, {"since", 6}, {"moment", 5}, {"page", 2}, {"offset", 5}, {"since", 4}, {"page", 4},
		{"moment", 20}, {"since", 20}, {"offset", 20}, {"record", 20}, {"page", 20},
	}
	offsetOrder     = searchOrder{{"offset", 12}, {"page", 6}, {"since", 6}, {"offset", 20}, {"page", 20}}
	pageOrder       = searchOrder{{"page", 13}, {"offset", 6}, {"since", 6}, {"page", 20}, {"offset", 20}}
	tokenOrder      = searchOrder{{"token", 40}}
	nextPageOrder   = searchOrder{{"page", 5}, {"token", 10}, {"page", 8}, {"token", 20}, {"offset", 6}}
	nextOffsetOrder = searchOrder{{"offset", 6}, {"token", 9}, {"offset", 5}, {"token", 20}, {"page", 5}}
)

// beforeOthers is how many entries of the order come before the pagers that the order does not name.
const beforeOthers = 4

func (e *evidence) oneByOne(tokens []Candidate) [][]Candidate {
	s := e.First.Signals
	kinds := map[string][]Candidate{"page": page{}.Candidates(e), "offset": offset{}.Candidates(e)}
	order := usualOrder
	switch {
	case s.Token != "":
		for kind, g := range kinds {
			kinds[kind] = e.without(g, tokens)
		}
		kinds["token"] = e.without(e.named(cursor{}, schemas.Paging().Parameters(schemas.ParamToken)), tokens)
		switch n := strconv.Itoa(e.First.N); {
		case !jsondoc.DigitsOnly(s.Token):
			order = tokenOrder
		case s.Token == n || s.offset >= 0 || len(s.Token) >= len(n) && s.Token != "2":
			order = nextOffsetOrder
		default:
			order = nextPageOrder
		}
	case s.offset >= 0 && s.Page < 0:
		order = offsetOrder
	case s.Page >= 0:
		order = pageOrder
	}
	kinds["since"] = keyset{}.Candidates(e)
	kinds["record"] = token{}.Candidates(e)
	if e.First.Rule == "" {
		kinds["moment"] = moment{}.Candidates(e)
	}
	all := [][]Candidate{tokens}
	for i, t := range order {
		n := min(t.n, len(kinds[t.kind]))
		all, kinds[t.kind] = append(all, kinds[t.kind][:n]), kinds[t.kind][n:]
		if i == min(beforeOthers, len(order))-1 {
			all = append(all, e.others()...)
		}
	}
	return all
}
