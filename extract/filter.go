package extract

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// changeFilters and creationFilters are the parameters that may leave out what
// is older than a moment; %s stands for the field.
var (
	changeFilters = []string{
		"updated_after", "updated_since", "modified_since", "since", "changed_since", "modified_after", "last_modified", "updated_at_min",
		"updated[gte]", "updated_at[gte]", "filter[updated_at][gte]", "%s[gte]", "%s_gte", "filter[%s][gte]", "updatedSince", "updatedAfter", "modifiedSince",
	}
	creationFilters = []string{
		"created_after", "created_since", "created[gte]", "created_at[gte]", "created_at_min", "since", "%s[gte]", "%s_gte", "filter[%s][gte]", "createdAfter", "date_from",
	}
)

// maxFields is how many times of a record filters are looked for by.
const maxFields = 2

// filters looks for a parameter that leaves out what has not changed. All are
// asked at once first, with a moment that has not come yet: a list that comes
// all the same knows none of them.
func (n *negotiation) filters(ctx context.Context, st *step) error {
	f := n.open(FactFilter)
	times := timeFields(n.rowsIn(st))
	for _, field := range times[:min(maxFields, len(times))] {
		names := creationFilters
		if timeRank(field) == 0 {
			names = changeFilters
		}
		t := &trial{n: n, st: st, f: f, field: field, unit: unitOf(n.rows, field), rows: n.rowsIn(st)}
		found, err := t.run(ctx, t.expand(names))
		if err != nil || found != nil {
			n.out.Filter = found
			return err
		}
	}
	if len(f.Evidence) == 0 && len(f.Refuted) == 0 {
		f.Refuted = append(f.Refuted, "no field holds times")
	}
	return nil
}

// trial looks for the filters of one field.
type trial struct {
	n     *negotiation
	st    *step
	f     *Fact
	field string
	unit  string
	rows  []row
}

// expand puts the field's name where it belongs, and leaves out what the stream
// sends anyway.
func (t *trial) expand(names []string) []string {
	var out []string
	for _, name := range names {
		name = strings.ReplaceAll(name, "%s", t.field)
		sent := slices.ContainsFunc(t.n.l.params, func(b bound) bool { return b.Name == name })
		if !sent && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// run halves the parameters until one is left that the list obeys.
func (t *trial) run(ctx context.Context, names []string) (*Filter, error) {
	future := format(t.n.now.AddDate(1, 0, 0), t.unit)
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
	return t.prove(ctx, names[0], future)
}

// reacts reports whether a moment to come leaves no record.
func (t *trial) reacts(ctx context.Context, names []string, bound string) (bool, error) {
	q := make(query)
	for _, name := range names {
		q.add(name, bound)
	}
	rows, err := t.ask(ctx, q)
	switch {
	case minded(err):
		t.f.Refuted = append(t.f.Refuted, q.names()+": "+excerpt(err.Error()))
		return false, nil
	case err != nil:
		return false, err
	case len(rows) > 0:
		t.f.Refuted = append(t.f.Refuted, fmt.Sprintf("%s after %s: %d records all the same", q.names(), bound, len(rows)))
	}
	return len(rows) == 0, nil
}

// prove accepts a filter that leaves nothing of the future, and of a moment
// amid the first page's exactly what is not older.
func (t *trial) prove(ctx context.Context, name, future string) (*Filter, error) {
	if ok, err := t.reacts(ctx, []string{name}, future); !ok || err != nil {
		return nil, err
	}
	middle, ok := t.middle()
	if !ok {
		t.f.Refuted = append(t.f.Refuted, name+": the records have no two different times to try it with")
		return nil, nil
	}
	rows, err := t.ask(ctx, query{name: format(middle, t.unit)})
	if minded(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if why := t.disobeys(rows, middle); why != "" {
		t.f.Refuted = append(t.f.Refuted, fmt.Sprintf("%s=%s: %s", name, format(middle, t.unit), why))
		return nil, nil
	}
	inclusive := slices.ContainsFunc(rows, func(r row) bool { at, ok := moment(r[t.field], t.unit); return ok && at.Equal(middle) })
	t.f.Value = fmt.Sprintf("%s by %s", name, t.field)
	t.f.Evidence = append(t.f.Evidence, fmt.Sprintf("%s=%s left no record, %s=%s only those that are not older", name, future, name, format(middle, t.unit)))
	return &Filter{Param: name, Field: t.field, Format: t.unit, Inclusive: inclusive}, nil
}

// middle is the median of the first page's times, and not the earliest.
func (t *trial) middle() (time.Time, bool) {
	seen := map[int64]time.Time{}
	for _, r := range t.rows {
		if at, ok := moment(r[t.field], t.unit); ok {
			seen[at.UnixNano()] = at
		}
	}
	if len(seen) < 2 {
		return time.Time{}, false
	}
	all := slices.Sorted(maps.Keys(seen))
	return seen[all[len(all)/2]], true
}

// disobeys says how records contradict a bound: one that is older came, or one
// of the first page's did not that is later, though the list is as short.
func (t *trial) disobeys(rows []row, bound time.Time) string {
	for _, r := range rows {
		at, ok := moment(r[t.field], t.unit)
		if !ok {
			return "a record without a time came"
		}
		if at.Before(bound) {
			return fmt.Sprintf("a record of %s came", format(at, t.unit))
		}
	}
	later := 0
	for _, r := range t.rows {
		if at, ok := moment(r[t.field], t.unit); ok && at.After(bound) {
			later++
		}
	}
	if len(rows) < min(later, len(t.rows)) {
		return fmt.Sprintf("%d records came, and of the first page alone %d are later", len(rows), later)
	}
	if len(rows) == 0 {
		return "no record came"
	}
	return ""
}

// ask reads the list with the parameters added.
func (t *trial) ask(ctx context.Context, q query) ([]row, error) {
	st, err := t.n.l.look(ctx, position{extra: q.encode()})
	if err != nil {
		return nil, err
	}
	defer t.n.c.release(st.a)
	return t.n.rowsIn(st), nil
}
