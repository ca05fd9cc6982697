package paging

import (
	"slices"
	"strings"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

// evidence is what is known when candidates are chosen: the first page of a list, and what earlier answers showed.
type evidence struct {
	list     List
	s        *schemas.Stream // stream of the list; probes change its Pagination for the next request
	progress *Progress
	First    *Page
	lastID   string // id of the last record of the first page

	server   attitude
	takes    []string // parameters that the server knows: it refused only their values
	fromZero bool     // for one of the parameters, the value 1 does not return the first page
}

// attitude is how the server treats parameters that it does not know.
type attitude struct {
	controlled bool     // a request was sent with noParameter, which no server knows
	answers    bool     // the server answered noParameter
	lenient    bool     // the server ignored noParameter
	refuses    bool     // the server refuses unknown parameters, or uses them as filters: each candidate needs its own request
	strange    []string // words of the message that refused noParameter
}

// named() returns the candidates of a pager for the parameters with these names.
func (e *evidence) named(g Pager, names []string) []Candidate {
	var out []Candidate
	for _, name := range names {
		if e.fixed(name) {
			continue
		}
		if at := g.Second(e, name); at.At != "" {
			out = append(out, Candidate{pager: g, at: at})
		}
	}
	return out
}

// fixed reports whether the stream itself sets a parameter to a value that paging must not change. Values like
// page=1, offset=0 or cursor=* only say where the list begins, so they are not fixed.
func (e *evidence) fixed(name string) bool {
	words := schemas.Paging()
	return slices.ContainsFunc(e.list.Values(name), func(v string) bool {
		begins := (v == "0" || v == "1") && (words.Parameter(schemas.ParamPage, name) || words.Parameter(schemas.ParamOffset, name)) ||
			words.FirstToken(v) && words.Parameter(schemas.ParamToken, name)
		return !begins
	})
}

// withMember returns candidates that send the value of a member of the last record, such as its time of creation.
func (e *evidence) withMember(g Pager, names []string, field, value string) []Candidate {
	var out []Candidate
	for _, name := range names {
		if value != "" && !e.fixed(name) {
			out = append(out, Candidate{pager: g, field: field, at: Position{Kind: KindCursor, Param: name, At: value}})
		}
	}
	return out
}

// identity finds a member that is named like an id, and has a different value in each record of the first page. If an
// object wraps each record, field is "wrapper/member".
func (e *evidence) identity() (field, value string) {
	f, err := e.list.Locate(e.First.Doc)
	if err != nil {
		return "", ""
	}
	if field, value = identityOf(records.RowsOf(e.First.Doc, f)); field != "" {
		return field, value
	}
	wrapper, rows := records.WrappedRows(e.First.Doc, f)
	if field, value = identityOf(rows); field != "" {
		field = wrapper + "/" + field
	}
	return field, value
}

// identityOf prefers the shortest name. For example, it prefers id to owner_id.
func identityOf(rows []records.Row) (field, value string) {
	for _, name := range records.Fields(rows) {
		low := strings.ToLower(name)
		if (strings.HasSuffix(low, "id") || strings.HasSuffix(low, "key") || strings.HasSuffix(low, "sid")) &&
			(field == "" || len(name) < len(field)) && !strings.HasPrefix(name, records.ContextKey) && records.Distinct(rows, name) == "" {
			field = name
		}
	}
	if field == "" {
		return "", ""
	}
	return field, jsondoc.TextOf([]byte(rows[len(rows)-1][field]))
}

func (e *evidence) sizeNames() []string {
	return SizeNames(e.s.Pagination, e.First.Signals)
}
