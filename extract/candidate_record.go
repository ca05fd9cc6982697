package extract

import (
	"slices"
	"strings"

	"github.com/penstock-data/penstock/schemas"
)

// since are the candidates that send the id of the last record.
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

// identity is a member named like an id that differs in all records of the first page,
// and its value in the last record.
func (p *pagerProbe) identity() (field, value string) {
	f, err := p.l.locate(p.first.a.d)
	if err != nil {
		return "", ""
	}
	rows := rowsOf(p.first.a.d, f)
	for _, name := range fields(rows) {
		low := strings.ToLower(name)
		if (strings.HasSuffix(low, "id") || strings.HasSuffix(low, "key") || strings.HasSuffix(low, "sid")) && !strings.HasPrefix(name, contextKey) && distinct(rows, name) == "" {
			return name, bound{value: []byte(rows[len(rows)-1][name])}.text()
		}
	}
	return "", ""
}

// fromRecords are the candidates that send a member of the last record that is named
// like a token.
func (p *pagerProbe) fromRecords() [][]pagerCandidate {
	d, last, words := p.first.a.d, p.first.batch.last, schemas.Paging()
	var all [][]pagerCandidate
	for _, field := range words.RecordTokens() {
		v := d.get(last, field)
		if !v.ok() || v.node >= 0 || d.void(v) {
			continue
		}
		value := bound{value: d.raw(v)}.text()
		names := distinctNames(slices.Concat([]string{field}, words.Parameters(schemas.ParamRecord), words.Parameters(schemas.ParamSince)))
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

// moments are the candidates that send a time of the last record, if the first page is
// in the order of that time.
func (p *pagerProbe) moments() [][]pagerCandidate {
	f, err := p.l.locate(p.first.a.d)
	if err != nil {
		return nil
	}
	rows := rowsOf(p.first.a.d, f)
	var all [][]pagerCandidate
	for _, field := range timeFields(rows) {
		slope := trend(rows, field)
		if slope == uneven || len(all) == 4 {
			continue
		}
		value := bound{value: []byte(rows[len(rows)-1][field])}.text()
		var g []pagerCandidate
		for _, name := range schemas.Paging().Parameters(schemas.ParamMoment) {
			if !p.fixed(name) {
				g = append(g, pagerCandidate{typ: "since_id", field: field, moment: true, at: position{kind: pagerCursor, param: name, at: value}})
			}
		}
		all = append(all, g)
	}
	return all
}
