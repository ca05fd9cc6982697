package extract

import (
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"time"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/extract/paging"
	"github.com/penstock-data/penstock/schemas"
)

// windows are the time windows that a pass requests, one after the other. Each window is a tuple: [6,2024] for a month,
// or the beginning and the end of a range. The end may be null. Some servers include the bounds of a range, others do
// not. So each range begins one step of the time format before the end of the previous range. The key identifies
// records that come twice.
type windows struct {
	s     schemas.Stream
	plan  windowPlan
	lines [][]byte
}

func newWindows(s schemas.Stream, f windowPlan) *windows {
	w := &windows{s: s, plan: f}
	if s.Months.Set() {
		for _, m := range f.months() {
			w.lines = append(w.lines, monthLine(m))
		}
		return w
	}
	cuts, format := f.cuts(), s.Incremental.Format
	for i, from := range cuts[:len(cuts)-1] {
		back, forth := stepOf(format), time.Duration(0)
		if i == 0 {
			back = slack(format)
		}
		if i == len(cuts)-2 && zoneless(format) {
			forth = skew
		}
		until := []byte("null")
		if !cuts[i+1].IsZero() {
			until = momentJSON(cuts[i+1].Add(forth), format)
		}
		w.lines = append(w.lines, fmt.Appendf(nil, "[%s,%s]", momentJSON(from.Add(-back), format), until))
	}
	return w
}

func monthLine(at time.Time) []byte { return fmt.Appendf(nil, "[%d,%d]", at.Month(), at.Year()) }

func (w *windows) fed() []schemas.Param {
	names := [2]string{w.s.Incremental.Param, w.s.Incremental.Until}
	if w.s.Months.Set() {
		names = [2]string{w.s.Months.Month, w.s.Months.Year}
	}
	in := placeOf(w.s)
	return []schemas.Param{{Name: names[0], In: in}, {Name: names[1], In: in}}
}

func placeOf(s schemas.Stream) string {
	if s.Method == http.MethodPost && !s.Pagination.Query {
		return "body"
	}
	return "query"
}

func (w *windows) tuples() iter.Seq2[tuple, error] {
	return func(yield func(tuple, error) bool) {
		for _, line := range w.lines {
			if !yield(tuple{line: line}, nil) {
				return
			}
		}
	}
}

func (w *windows) count() int {
	if w.plan.openStart() {
		return 0
	}
	return len(w.lines)
}

func (w *windows) over(f windowPlan) bool {
	return w != nil && f.openStart() && f.exhausted()
}

// check returns an error for a record outside the range. Such a record shows that the server ignores the parameters, so
// each window would read the whole list.
func (w *windows) check(p *pass, line string, records []byte) error {
	if w == nil || w.s.Months.Set() || len(records) == 0 {
		return nil
	}
	records = append(slices.Clone(records), ']') // the list has no closing bracket
	d := p.c.docs.Get().(*jsondoc.Doc)
	defer p.c.docs.Put(d)
	if err := d.Scan(records); err != nil {
		return err
	}
	for r := range d.Elements(d.Root()) {
		if err := w.checkRange(d, r, line); err != nil {
			return malformed(w.s, paging.Position{}, err)
		}
	}
	return d.Err()
}

func (w *windows) checkRange(d *jsondoc.Doc, r jsondoc.Value, line string) error {
	i := w.s.Incremental
	at, ok := momentAt(d, d.Get(r, i.Field), i.Format)
	if !ok {
		return nil
	}
	var bounds [2]json.RawMessage
	if err := json.Unmarshal([]byte(line), &bounds); err != nil {
		return err
	}
	from, _ := parseMoment(bound{value: bounds[0]}.text(), i.Format)
	until, ended := parseMoment(bound{value: bounds[1]}.text(), i.Format)
	switch {
	case at.Before(from.Add(-skew)):
		return fmt.Errorf("%[3]s=%[4]s returned a record with %[1]s %[2]s: the list ignores the parameter", i.Field, at.Format(time.RFC3339), i.Param, bounds[0])
	case ended && at.After(until.Add(skew)):
		return fmt.Errorf("%[3]s=%[4]s returned a record with %[1]s %[2]s: the list ignores the parameter", i.Field, at.Format(time.RFC3339), i.Until, bounds[1])
	}
	return nil
}

func presentMonth(s schemas.Stream, now time.Time) ([]bound, error) {
	if !s.Months.Set() {
		return nil, nil
	}
	return valuesFor((&windows{s: s}).fed(), monthLine(now.UTC()))
}
