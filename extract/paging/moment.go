package paging

import (
	"context"
	"slices"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/schemas"
)

// moment is the pager that requests the next page with the time of the last record: created_before=2026-11-21. Several
// records may have the same time.
type moment struct{ keyset }

// Traits implements [Pager].
func (moment) Traits() Traits { return Traits{Computes: true} }

// Candidates returns the parameters for each time field by which the first page is sorted.
func (g moment) Candidates(e *evidence) []Candidate { return slices.Concat(g.groups(e)...) }

// Judge rejects a parameter that leads to no other records, and a parameter that could lose records unnoticed.
func (g moment) Judge(_ context.Context, p *Probe, t Trial) (Verdict, error) {
	if t.Like != OtherRecords || !g.safe(p, t.Page) {
		return Rejected, nil
	}
	return Second, nil
}

// groups returns the candidates in the order in which they are tried. Parameters that the server knows come first.
func (g moment) groups(e *evidence) [][]Candidate {
	f, err := e.list.Locate(e.First.Doc)
	if err != nil {
		return nil
	}
	rows := records.RowsOf(e.First.Doc, f)
	var known, others [][]Candidate
	for _, field := range momentFields(rows) {
		meaning := schemas.ParamLater
		if records.Trend(rows, field) == records.Falling {
			meaning = schemas.ParamEarlier
		}
		value := jsondoc.TextOf([]byte(rows[len(rows)-1][field]))
		var rest []Candidate
		names := slices.DeleteFunc(slices.Clone(schemas.Paging().Parameters(meaning)), func(name string) bool { return aboutOtherTime(name, field) })
		for _, c := range e.withMember(g, names, field, value) {
			if slices.Contains(e.takes, c.at.Param) {
				known = append(known, []Candidate{c})
			} else {
				rest = append(rest, c)
			}
		}
		others = append(others, rest)
	}
	return append(known, others...)
}

// safe reports whether paging by a time loses no record, or the loss would be noticed. If the second page repeats the
// last record of the first page, no record is lost between them. If the list states a total, the total would show a
// loss.
func (moment) safe(p *Probe, st *Page) bool {
	if p.First.Signals.Total >= 0 {
		return true
	}
	keys := p.First.Keys
	return len(keys) > 0 && slices.Contains(st.Keys, keys[len(keys)-1])
}

const maxMomentFields = 4

// momentFields returns the time fields by which the rows are sorted. Times of change come last: as long as no user has
// changed a record, a list that is sorted by creation time also looks sorted by the time of change.
func momentFields(rows []records.Row) []string {
	all := slices.DeleteFunc(records.TimeFields(rows), func(field string) bool { return records.Trend(rows, field) == records.Uneven })
	slices.SortStableFunc(all, func(a, b string) int { return timePriority(a) - timePriority(b) })
	return all[:min(len(all), maxMomentFields)]
}

func timePriority(field string) int { return (records.TimeRank(field) + 2) % 3 }

func aboutOtherTime(param, field string) bool {
	return records.TimeRank(param) < 2 && records.TimeRank(field) < 2 && records.TimeRank(param) != records.TimeRank(field)
}
