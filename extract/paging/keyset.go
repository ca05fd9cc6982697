package paging

import (
	"strings"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

// keyset sends the id of the last record: starting_after=17.
type keyset struct{ parameter }

// Type implements [Pager].
func (keyset) Type() string { return "since_id" }

// Traits implements [Pager].
func (keyset) Traits() Traits { return Traits{Computes: true, Blind: true} }

// Candidates sends the id of the last record. If the key is unknown, it sends a member that is named like an id.
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

// withMember returns candidates that send the value of a member of the last record.
func (e *evidence) withMember(g Pager, names []string, field, value string) []Candidate {
	var out []Candidate
	for _, name := range names {
		if value != "" && !e.fixed(name) {
			out = append(out, Candidate{pager: g, field: field, at: Position{Kind: KindCursor, Param: name, At: value}})
		}
	}
	return out
}

// identity finds a member that is named like an id and differs in all records of the first page. If an object wraps
// each record, field is "wrapper/member".
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

// identityOf prefers the shortest name: id to owner_id.
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
