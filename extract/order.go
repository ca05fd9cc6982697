package extract

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

// order() finds out how the list is sorted by default. Until a user edits a record, the order by change equals the
// order by creation. So only an edited record shows which of these orders the list has.
func (n *negotiation) order() {
	key := n.keyFields()
	f := n.open(FactSort)
	var times []string
	if len(n.rows) >= records.MinDistinct { // fewer records may be in order by chance
		times = records.TimeFields(n.rows)
	}
	for _, name := range times {
		if !records.OfChange(name) || records.Trend(n.rows, name) != records.Falling {
			continue
		}
		n.ordered(f, name, true)
		h := historyOf(n.rows, key, name)
		if edited, other := h.evidence(n.rows); edited != nil && h.complete(n.rows) {
			n.out.Order.ByChange = true
			f.Evidence = append(f.Evidence, fmt.Sprintf("a record changed at %s comes before a record that was created later, but changed at %s", edited[name], other[name]))
		} else {
			n.out.WaitsForChange = true
			f.Refuted = append(f.Refuted, fmt.Sprintf("the latest change first: none of %d records shows whether the list is sorted by change or by creation", len(n.rows)))
		}
		return
	}
	for _, name := range slices.Concat(key, times) {
		if slope := records.Trend(n.rows, name); slope != records.Uneven {
			n.ordered(f, name, slope == records.Falling)
			return
		}
	}
	f.Evidence = append(f.Evidence, fmt.Sprintf("%d records are not sorted by any of their fields", len(n.rows)))
}

func (n *negotiation) ordered(f *Fact, name string, desc bool) {
	n.out.Order = &Order{Field: name, Desc: desc}
	f.Value = "by " + name
	if desc {
		f.Value += ", the largest first"
	}
	f.Evidence = append(f.Evidence, fmt.Sprintf("%d records are in this order", len(n.rows)))
}

// sorting looks for a query that makes the server sort the list by key. It accepts a query only if the returned
// records are in that order.
func (n *negotiation) sorting(ctx context.Context, st *step) error {
	key := n.keyFields()
	p := &n.out.Pagination
	if n.s.Incremental.Auto && n.out.Filter == nil && n.out.Order != nil && n.out.Order.ByChange {
		return nil // incremental passes need the default order
	}
	if len(key) != 1 || strings.HasPrefix(key[0], records.ContextKey) || p.Type == "" || p.Type == "none" || p.Order != "" || st.batch.N < 3 {
		return nil
	}
	if records.Trend(n.rows, key[0]) == records.Rising {
		return nil
	}
	f := n.open(FactSort)
	for _, pattern := range schemas.Paging().Sorts[:maxSorts] {
		order := strings.ReplaceAll(pattern, "%s", url.QueryEscape(key[0]))
		probe, err := n.l.look(ctx, paging.Position{Extra: order})
		if paging.Refused(err) {
			f.Refuted = append(f.Refuted, order+": "+wire.Excerpt(err.Error()))
			continue
		}
		if err != nil {
			return err
		}
		rows := n.rowsIn(probe)
		n.c.release(probe.a)
		if records.Trend(rows, key[0]) != records.Rising {
			f.Refuted = append(f.Refuted, order+": the records are not in this order")
			continue
		}
		p.Order = order
		f.Value, f.Evidence = "by "+key[0]+", requested", append(f.Evidence, fmt.Sprintf("%s: %d records in order, the first %s", order, len(rows), rows[0][key[0]]))
		return nil
	}
	return nil
}

const maxSorts = 5

func (n *negotiation) rowsIn(st *step) []records.Row {
	f, err := n.l.locate(st.a.d)
	if err != nil {
		return nil
	}
	return records.RowsOf(st.a.d, f)
}
