package paging

import (
	"slices"
	"strings"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

func (p *Probe) since() []candidate {
	names := schemas.Paging().Parameters(schemas.ParamSince)
	if p.lastID != "" {
		return p.named("since_id", names)
	}
	field, value := p.identity()
	if value == "" {
		return nil
	}
	var out []candidate
	for _, name := range names {
		if !p.fixed(name) {
			out = append(out, candidate{typ: "since_id", field: field, at: Position{Kind: KindCursor, Param: name, At: value}})
		}
	}
	return out
}

// identity finds a member that is named like an id and differs in all records of the first page. If an object wraps
// each record, field is "wrapper/member".
func (p *Probe) identity() (field, value string) {
	f, err := p.list.Locate(p.First.Doc)
	if err != nil {
		return "", ""
	}
	if field, value = identityOf(records.RowsOf(p.First.Doc, f)); field != "" {
		return field, value
	}
	wrapper, rows := records.WrappedRows(p.First.Doc, f)
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

func (p *Probe) fromRecords() [][]candidate {
	d, last, words := p.First.Doc, p.First.Last, schemas.Paging()
	var all [][]candidate
	for _, field := range words.RecordTokens() {
		v := d.Get(last, field)
		if !v.OK() || v.Nested() || d.IsEmpty(v) {
			continue
		}
		value := jsondoc.TextOf(d.Raw(v))
		names := records.Unique(slices.Concat([]string{field}, words.Parameters(schemas.ParamRecord), words.Parameters(schemas.ParamSince)))
		var g []candidate
		for _, name := range names {
			if !p.fixed(name) {
				g = append(g, candidate{typ: "since_id", field: field, at: Position{Kind: KindCursor, Param: name, At: value}})
			}
		}
		for _, c := range g[:min(len(g), 4)] {
			all = append(all, []candidate{c})
		}
		all = append(all, g[min(len(g), 4):])
	}
	return all
}

// moments returns candidates that send a time of the last record. The first page must be ordered by that time.
func (p *Probe) moments() [][]candidate {
	f, err := p.list.Locate(p.First.Doc)
	if err != nil {
		return nil
	}
	rows := records.RowsOf(p.First.Doc, f)
	var known, others [][]candidate
	for _, field := range momentFields(rows) {
		family := schemas.ParamLater
		if records.Trend(rows, field) == records.Falling {
			family = schemas.ParamEarlier
		}
		value := jsondoc.TextOf([]byte(rows[len(rows)-1][field]))
		var g []candidate
		for _, name := range schemas.Paging().Parameters(family) {
			if p.fixed(name) || aboutOtherTime(name, field) {
				continue
			}
			c := candidate{typ: "since_id", field: field, moment: true, at: Position{Kind: KindCursor, Param: name, At: value}}
			if slices.Contains(p.takes, name) {
				known = append(known, []candidate{c})
			} else {
				g = append(g, c)
			}
		}
		others = append(others, g)
	}
	return append(known, others...)
}

const maxMomentFields = 4

// momentFields returns the fields whose times are in order. Times of change come last: they equal the times of
// creation until a user changes a record.
func momentFields(rows []records.Row) []string {
	all := slices.DeleteFunc(records.TimeFields(rows), func(field string) bool { return records.Trend(rows, field) == records.Uneven })
	slices.SortStableFunc(all, func(a, b string) int { return timePriority(a) - timePriority(b) })
	return all[:min(len(all), maxMomentFields)]
}

func timePriority(field string) int { return (records.TimeRank(field) + 2) % 3 }

func aboutOtherTime(param, field string) bool {
	return records.TimeRank(param) < 2 && records.TimeRank(field) < 2 && records.TimeRank(param) != records.TimeRank(field)
}
