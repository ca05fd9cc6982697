package extract

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"time"

	"github.com/penstock-data/penstock/schemas"
)

// windows are the windows of time that a pass asks for, one after the other. Each
// is a tuple: the numbers of a month and its year, or two moments, of which the
// second is null where there is no end.
//
// A server may include the bound itself, or not. So every window of times begins a step
// before the end of the previous one: no record is between two windows, and the key
// shows which records came twice.
type windows struct {
	s     schemas.Stream
	frame windowPlan
	lines [][]byte
}

func newWindows(s schemas.Stream, f windowPlan) *windows {
	w := &windows{s: s, frame: f}
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

// fed are the parameters that take a tuple's values.
func (w *windows) fed() []schemas.Param {
	names := [2]string{w.s.Incremental.Param, w.s.Incremental.Until}
	if w.s.Months.Set() {
		names = [2]string{w.s.Months.Month, w.s.Months.Year}
	}
	in := placeOf(w.s)
	return []schemas.Param{{Name: names[0], In: in}, {Name: names[1], In: in}}
}

// placeOf is where a stream's requests carry what they ask for.
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
	if w.frame.walks() {
		return 0
	}
	return len(w.lines)
}

// over reports whether nothing is to be expected of the windows to come. f is the
// frame as it stands in the cursor.
func (w *windows) over(f windowPlan) bool {
	return w != nil && f.walks() && f.spent()
}

// byWindow reads the stream for each window.
func (p *pass) byWindow(ctx context.Context) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		w := newWindows(p.s, p.mark.Frame)
		f := &fanPass{pass: p, over: w, fed: w.fed(), windows: w, done: fnvBasis}
		f.goOn(ctx, yield)
	}
}

// reach is how many tuples are looked ahead at: few where the end may be near.
func (f *fanPass) reach() int {
	if f.windows != nil && f.mark.Frame.walks() {
		return min(f.c.parallel, 4)
	}
	return f.c.parallel
}

// check holds the records that came for a range against it. A server that does
// not read the parameters would be read whole for every range.
func (w *windows) check(p *pass, line string, records []byte) error {
	if w == nil || w.s.Months.Set() || len(records) == 0 {
		return nil
	}
	records = append(slices.Clone(records), ']') // a batch stands without it
	d := p.c.docs.Get().(*doc)
	defer p.c.docs.Put(d)
	if err := d.scan(records); err != nil {
		return err
	}
	for r := range d.elements(d.root()) {
		if err := w.holds(d, r, line); err != nil {
			return malformed(w.s, position{}, err)
		}
	}
	return d.err
}

// holds reports a record that does not belong to the range of a line.
func (w *windows) holds(d *doc, r value, line string) error {
	i := w.s.Incremental
	at, ok := d.moment(d.get(r, i.Field), i.Format)
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
		return fmt.Errorf("a record of %s %s came for %s=%s: the list does not mind the parameter", i.Field, at.Format(time.RFC3339), i.Param, bounds[0])
	case ended && at.After(until.Add(skew)):
		return fmt.Errorf("a record of %s %s came for %s=%s: the list does not mind the parameter", i.Field, at.Format(time.RFC3339), i.Until, bounds[1])
	}
	return nil
}

// end is what can be said once all windows were read.
func (w *windows) end(f *fanPass) *End {
	m := &f.mark
	e := &End{
		Rule: RuleWindows, Resumed: f.resumed, Pages: m.Pages, FirstTotal: -1, LastTotal: -1,
		Windows: m.Parents, Short: m.Short, Gaps: m.Gaps, Note: f.note, Partial: m.Frame.Part,
		Incomplete: m.Incomplete, Unexplained: m.Unexplained,
	}
	if e.Partial {
		e.Since = m.Frame.From
	}
	return e
}

// stepOf is the smallest step of a time format.
func stepOf(format string) time.Duration {
	switch format {
	case schemas.MomentDate:
		return 24 * time.Hour
	case schemas.MomentUnixMS:
		return time.Millisecond
	}
	return time.Second
}

// slack is how far before its beginning a range is requested: one step, as the server may
// include the bound or not, and the largest difference of two time zones if the source
// names none.
func slack(format string) time.Duration {
	if zoneless(format) {
		return skew
	}
	return stepOf(format)
}

func zoneless(format string) bool {
	return format == schemas.MomentDate || format == schemas.MomentDateTime
}

// presentMonth is how a list by months is asked for the present one.
func presentMonth(s schemas.Stream, now time.Time) ([]bound, error) {
	if !s.Months.Set() {
		return nil, nil
	}
	return valuesFor((&windows{s: s}).fed(), monthLine(now.UTC()))
}
