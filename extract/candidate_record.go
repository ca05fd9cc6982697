package extract

import (
	"slices"
	"strings"

	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

func (p *pagerProbe) since() []pagerCandidate {
	names := schemas.Paging().Parameters(schemas.ParamSince)
	if p.l.lastID != "" {
		return p.named("since_id", names)
	}
	field, value := p.identity()
	if value == "" {
		return nil
	}
	var out []pagerCandidate
	for _, name := range names {
		if !p.fixed(name) {
			out = append(out, pagerCandidate{typ: "since_id", field: field, at: position{kind: pagerCursor, param: name, at: value}})
		}
	}
	return out
}

// identity finds a member that is named like an id and differs in all records of the first page. If an object wraps
// each record, field is "wrapper/member".
func (p *pagerProbe) identity() (field, value string) {
	f, err := p.l.locate(p.first.a.d)
	if err != nil {
		return "", ""
	}
	if field, value = identityOf(records.RowsOf(p.first.a.d, f)); field != "" {
		return field, value
	}
	wrapper, rows := records.WrappedRows(p.first.a.d, f)
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
	return field, bound{value: []byte(rows[len(rows)-1][field])}.text()
}

func (p *pagerProbe) fromRecords() [][]pagerCandidate {
	d, last, words := p.first.a.d, p.first.batch.last, schemas.Paging()
	var all [][]pagerCandidate
	for _, field := range words.RecordTokens() {
		v := d.Get(last, field)
		if !v.OK() || v.Nested() || d.IsEmpty(v) {
			continue
		}
		value := bound{value: d.Raw(v)}.text()
		names := records.Unique(slices.Concat([]string{field}, words.Parameters(schemas.ParamRecord), words.Parameters(schemas.ParamSince)))
		var g []pagerCandidate
		for _, name := range names {
			if !p.fixed(name) {
				g = append(g, pagerCandidate{typ: "since_id", field: field, at: position{kind: pagerCursor, param: name, at: value}})
			}
		}
		for _, c := range g[:min(len(g), 4)] {
			all = append(all, []pagerCandidate{c})
		}
		all = append(all, g[min(len(g), 4):])
	}
	return all
}

// moments returns candidates that send a time of the last record. The first page must be ordered by that time.
func (p *pagerProbe) moments() [][]pagerCandidate {
	f, err := p.l.locate(p.first.a.d)
	if err != nil {
		return nil
	}
	rows := records.RowsOf(p.first.a.d, f)
	var known, others [][]pagerCandidate
	for _, field := range momentFields(rows) {
		family := schemas.ParamLater
		if records.Trend(rows, field) == records.Falling {
			family = schemas.ParamEarlier
		}
		value := bound{value: []byte(rows[len(rows)-1][field])}.text()
		var g []pagerCandidate
		for _, name := range schemas.Paging().Parameters(family) {
			if p.fixed(name) || aboutOtherTime(name, field) {
				continue
			}
			c := pagerCandidate{typ: "since_id", field: field, moment: true, at: position{kind: pagerCursor, param: name, at: value}}
			if slices.Contains(p.takes, name) {
				known = append(known, []pagerCandidate{c})
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
