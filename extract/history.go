package extract

import (
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/extract/records"
)

// history compares the times of change of the records with their times of creation. Until a user edits a record, both
// times give the same order. So only an edited record shows that a list is in the order of change.
type history struct {
	key           []string
	changed, unit string // the field with the time of change, and its format
	created       string
	createdUnit   string
}

func historyOf(rows []records.Row, key []string, changed string) history {
	h := history{key: key, changed: changed, unit: records.UnitOf(rows, changed)}
	for _, name := range records.TimeFields(rows) {
		if records.TimeRank(name) == 1 && h.created == "" {
			h.created, h.createdUnit = name, records.UnitOf(rows, name)
		}
	}
	return h
}

func (h history) at(r records.Row) (time.Time, bool) { return records.Moment(r[h.changed], h.unit) }

// complete() reports whether all rows have a time of change. A record without this time has no place in the order, and
// a filter may always leave it out.
func (h history) complete(rows []records.Row) bool {
	return !slices.ContainsFunc(rows, func(r records.Row) bool { _, ok := h.at(r); return !ok })
}

// event has the values by which rows are put in order. Parsing these values is slow, so each row is parsed once.
type event struct {
	row     records.Row
	changed time.Time
	created time.Time
	number  *big.Int // the key; nil if it is not a whole number, or if the times of creation are compared
	known   bool     // created or number is known
}

func (h history) events(rows []records.Row) []event {
	all := make([]event, len(rows))
	for i, r := range rows {
		e := event{row: r}
		e.changed, _ = h.at(r)
		switch {
		case h.created != "":
			e.created, e.known = records.Moment(r[h.created], h.createdUnit)
		case len(h.key) == 1:
			e.number, e.known = wholeNumber(r[h.key[0]])
		}
		all[i] = e
	}
	return all
}

// before() reports whether e was created before o.
func (e event) before(o event) bool {
	switch {
	case !e.known || !o.known:
		return false
	case e.number != nil:
		return e.number.Cmp(o.number) < 0
	}
	return e.created.Before(o.created)
}

func wholeNumber(v string) (*big.Int, bool) {
	n, ok := records.Decimal(v)
	if !ok || !n.IsInt() {
		return nil, false
	}
	return n.Num(), true
}

// evidence looks for proof that the list has the latest change first. The proof is two rows, A and B. In the list, A
// comes before B. A was changed after B, but created before B. The results are A and B.
func (h history) evidence(rows []records.Row) (edited, other records.Row) {
	all := h.events(rows)
	for j, o := range all {
		for _, e := range all[:j] {
			if e.changed.After(o.changed) && e.before(o) {
				return e.row, o.row
			}
		}
	}
	return nil, nil
}

// edited() looks for two records, A and B: A was created before B, and changed after B. It also returns a time between
// the two changes, as late as the format allows.
func (h history) edited(rows []records.Row) (edited, other records.Row, bound time.Time) {
	byChange := h.events(rows)
	slices.SortStableFunc(byChange, func(a, b event) int { return b.changed.Compare(a.changed) })
	for i, e := range byChange {
		m, ok := parseMoment(h.text(e.changed.Add(-max(time.Second, stepOf(h.unit)))), h.unit)
		if !ok {
			continue
		}
		for _, o := range byChange[i+1:] {
			if o.changed.Before(m) && e.before(o) {
				return e.row, o.row, m
			}
		}
	}
	return nil, nil, time.Time{}
}

func (h history) text(at time.Time) string { return bound{value: momentJSON(at, h.unit)}.text() }

func (h history) id(r records.Row) string {
	var b strings.Builder
	for _, k := range h.key {
		b.WriteString(r[k] + "\x00")
	}
	return b.String()
}

func (h history) has(rows []records.Row, r records.Row) bool {
	return slices.ContainsFunc(rows, func(o records.Row) bool { return h.id(o) == h.id(r) })
}
