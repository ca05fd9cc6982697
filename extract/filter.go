package extract

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/extract/records"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/schemas"
)

const maxFields = 2

// filters looks for a parameter that leaves out unchanged records. It first sends all candidates in one request, with
// a time in the future. If records still arrive, the server ignores all candidates.
func (n *negotiation) filters(ctx context.Context, st *step) error {
	f := n.open(FactFilter)
	fields := n.timesOfChange()
	if len(n.keyFields()) == 0 {
		fields = nil
	}
	for _, field := range fields[:min(maxFields, len(fields))] {
		t := &trial{n: n, f: f, h: historyOf(n.rows, n.keyFields(), field), page: len(n.rowsIn(st))}
		found, err := t.run(ctx, t.expand(schemas.Paging().Parameters(schemas.ParamChange)))
		if err != nil || found != nil {
			n.out.Filter = found
			return err
		}
	}
	if len(f.Evidence) == 0 && len(f.Refuted) == 0 {
		f.Refuted = append(f.Refuted, "the records have no key, or no field with the time of the last change")
	}
	return nil
}

func (n *negotiation) timesOfChange() []string {
	return slices.DeleteFunc(records.TimeFields(n.rows), func(name string) bool { return !records.OfChange(name) })
}

type trial struct {
	n    *negotiation
	f    *Fact
	h    history
	page int
}

func (t *trial) expand(names []string) []string {
	var out []string
	for _, name := range names {
		name = strings.ReplaceAll(name, "%s", t.h.changed)
		sent := slices.ContainsFunc(t.n.l.params, func(b bound) bool { return b.Name == name })
		if !sent && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func (t *trial) run(ctx context.Context, names []string) (*Filter, error) {
	future := t.h.text(t.n.now.AddDate(1, 0, 0))
	for len(names) > 1 {
		reacts, err := t.reacts(ctx, names, future)
		if err != nil || !reacts {
			return nil, err
		}
		half := names[:len(names)/2]
		if reacts, err = t.reacts(ctx, half, future); err != nil {
			return nil, err
		}
		if reacts {
			names = half
			continue
		}
		names = names[len(half):]
	}
	if ok, err := t.reacts(ctx, names, future); !ok || err != nil {
		return nil, err
	}
	return t.prove(ctx, names[0])
}

func (t *trial) reacts(ctx context.Context, names []string, bound string) (bool, error) {
	q := make(paging.Query)
	for _, name := range names {
		q.Add(name, bound)
	}
	rows, err := t.request(ctx, q)
	switch {
	case paging.Refused(err):
		t.f.Refuted = append(t.f.Refuted, q.Names()+": "+wire.Excerpt(err.Error()))
		return false, nil
	case err != nil:
		return false, err
	case len(rows) > 0:
		t.f.Refuted = append(t.f.Refuted, fmt.Sprintf("%s after %s: still %d records", q.Names(), bound, len(rows)))
	}
	return len(rows) == 0, nil
}

// prove accepts a filter only if it compares the time of change, not of creation. The test needs two records, A and B:
// A was created before B, and changed after B. The filter gets a time between the two changes. It must return A and
// leave out B.
func (t *trial) prove(ctx context.Context, name string) (*Filter, error) {
	t.n.out.WaitsForChange = true
	if !t.h.complete(t.n.rows) {
		t.f.Refuted = append(t.f.Refuted, fmt.Sprintf("%s: some records have no %s, and the filter may always leave them out", name, t.h.changed))
		return nil, nil
	}
	rows := t.n.rows
	edited, other, bound := t.h.edited(rows)
	if edited == nil {
		middle, ok := t.middle()
		if !ok {
			t.f.Refuted = append(t.f.Refuted, name+": all records have the same time, so the filter cannot be tested")
			return nil, nil
		}
		more, err := t.after(ctx, name, middle)
		if err != nil || more == nil {
			return nil, err
		}
		rows = append(slices.Clone(rows), more...)
		edited, other, bound = t.h.edited(rows)
	}
	if edited == nil {
		t.f.Refuted = append(t.f.Refuted, fmt.Sprintf("%s: none of the %d records was edited in a way that shows whether the filter compares the time of change or of creation", name, len(rows)))
		return nil, nil
	}
	answer, err := t.after(ctx, name, bound)
	if err != nil || answer == nil {
		return nil, err
	}
	if why := t.disobeys(answer, rows, edited, other, bound); why != "" {
		t.refuse(name, bound, why)
		return nil, nil
	}
	t.n.out.WaitsForChange = false
	t.f.Value = fmt.Sprintf("%s by %s", name, t.h.changed)
	t.f.Evidence = append(t.f.Evidence, fmt.Sprintf("%s=%s returned a record that was changed at that time or later, and left out a record that was created later and changed earlier; a time in the future returned no records", name, t.h.text(bound)))
	return &Filter{Param: name, Field: t.h.changed, Format: t.h.unit, ByChange: true}, nil
}

func (t *trial) after(ctx context.Context, name string, bound time.Time) ([]records.Row, error) {
	rows, err := t.request(ctx, paging.Query{name: t.h.text(bound)})
	switch {
	case paging.Refused(err):
		t.refuse(name, bound, wire.Excerpt(err.Error()))
		return nil, nil
	case err != nil:
		return nil, err
	case len(rows) == 0:
		t.refuse(name, bound, "no records")
		return nil, nil
	}
	for _, r := range rows {
		if at, ok := t.h.at(r); !ok || at.Before(bound) {
			t.refuse(name, bound, fmt.Sprintf("returned a record with %s %s", t.h.changed, r[t.h.changed]))
			return nil, nil
		}
	}
	return rows, nil
}

func (t *trial) refuse(name string, bound time.Time, why string) {
	t.f.Refuted = append(t.f.Refuted, fmt.Sprintf("%s=%s: %s", name, t.h.text(bound), why))
}

func (t *trial) middle() (time.Time, bool) {
	var all []time.Time
	for _, r := range t.n.rows {
		at, _ := t.h.at(r)
		all = append(all, at)
	}
	slices.SortFunc(all, time.Time.Compare)
	all = slices.CompactFunc(all, time.Time.Equal)
	if len(all) < 2 {
		return time.Time{}, false
	}
	return all[len(all)/2], true
}

// disobeys describes how an answer contradicts the hypothesis that the filter compares the time of change. A full page
// proves nothing, because missing records may be on the next page. So disobeys reports a full page too.
func (t *trial) disobeys(answer, known []records.Row, edited, other records.Row, bound time.Time) string {
	switch {
	case len(answer) >= t.page:
		return fmt.Sprintf("%d records came, and there may be more", len(answer))
	case !t.h.has(answer, edited):
		return fmt.Sprintf("the record changed at %s is missing", edited[t.h.changed])
	case t.h.has(answer, other):
		return fmt.Sprintf("returned a record with %s %s", t.h.changed, other[t.h.changed])
	}
	for _, r := range known {
		if at, ok := t.h.at(r); ok && at.After(bound) && !t.h.has(answer, r) {
			return fmt.Sprintf("a record with %s %s is missing", t.h.changed, r[t.h.changed])
		}
	}
	return ""
}

func (t *trial) request(ctx context.Context, q paging.Query) ([]records.Row, error) {
	st, err := t.n.l.look(ctx, paging.Position{Extra: q.Encode()})
	if err != nil {
		return nil, err
	}
	defer t.n.c.release(st.a)
	return t.n.rowsIn(st), nil
}
