package extract

import (
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/extract/records"
)

// history compares when records were changed and when they were created. The two orders are equal until a user edits a
// record. So only an edited record shows that a list is in the order of change.
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

// complete reports whether all rows have a time of change. A record without one has no place in the order, and a
// filter may always leave it out.
func (h history) complete(rows []records.Row) bool {
	return !slices.ContainsFunc(rows, func(r records.Row) bool { _, ok := h.at(r); return !ok })
}

func (h history) before(a, b records.Row) bool {
	if h.created != "" {
		x, ok := records.Moment(a[h.created], h.createdUnit)
		y, also := records.Moment(b[h.created], h.createdUnit)
		return ok && also && x.Before(y)
	}
	if len(h.key) != 1 {
		return false
	}
	x, ok := wholeNumber(a[h.key[0]])
	y, also := wholeNumber(b[h.key[0]])
	return ok && also && x.Cmp(y) < 0
}

func wholeNumber(v string) (*big.Int, bool) {
	n, ok := records.Decimal(v)
	if !ok || !n.IsInt() {
		return nil, false
	}
	return n.Num(), true
}

// evidence finds two rows that show that the latest change comes first. In the list, the row edited comes before the
// row other. The row edited was created before other, and changed after other.
func (h history) evidence(rows []records.Row) (edited, other records.Row) {
	for j, o := range rows {
		at, _ := h.at(o)
		for _, e := range rows[:j] {
			if changed, _ := h.at(e); changed.After(at) && h.before(e, o) {
				return e, o
			}
		}
	}
	return nil, nil
}

// edited finds a record that was created before other and changed after it. The result bound is a time between the two
// changes, as late as the format allows.
func (h history) edited(rows []records.Row) (edited, other records.Row, bound time.Time) {
	byChange := slices.Clone(rows)
	slices.SortStableFunc(byChange, func(a, b records.Row) int {
		x, _ := h.at(a)
		y, _ := h.at(b)
		return y.Compare(x)
	})
	for i, e := range byChange {
		at, _ := h.at(e)
		m, ok := parseMoment(h.text(at.Add(-max(time.Second, stepOf(h.unit)))), h.unit)
		if !ok {
			continue
		}
		for _, o := range byChange[i+1:] {
			if changed, _ := h.at(o); changed.Before(m) && h.before(e, o) {
				return e, o, m
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
