package extract

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/penstock-data/penstock/schemas"
)

// recall is what a pass of an incremental stream knows of those before, and
// leaves to the next. It stands in the cursor.
//
// A list moves while it is read: a record that changes is shown elsewhere, and
// another may slip past between two pages. So what a pass of several pages has
// come to is not taken for settled: the next one begins where that pass had
// begun, and only the one after it begins where it had ended. A change has to
// slip past twice to be missed, and then the next whole reading has it.
type recall struct {
	By      string    `json:"by,omitempty"`     // what the bounds are about: field and parameter
	Since   time.Time `json:"since,omitzero"`   // this pass leaves out what was changed before
	Tail    bool      `json:"tail,omitempty"`   // this pass may end where everything is known
	Top     time.Time `json:"top,omitzero"`     // latest change seen, in this pass or before
	Began   time.Time `json:"began,omitzero"`   // this pass, by the server's clock
	Edge    time.Time `json:"edge,omitzero"`    // up to where the last pass that has ended came
	Settled time.Time `json:"settled,omitzero"` // where the next pass may begin
	Whole   time.Time `json:"whole,omitzero"`   // when the last whole reading began, by our clock
	Before  time.Time `json:"before,omitzero"`  // of a whole reading: where an incremental one would have begun
}

// by says what the bounds of a stream are about; "" where it has none.
func (c *Client) by(s schemas.Stream) string {
	switch i := s.Incremental; {
	case s.Range.Set():
		return fmt.Sprintf("%s %s %s %s..%s", s.Months.Month, i.Param, i.Until, s.Range.From, s.Range.Until)
	case s.Range.Whole, c.fedBy(s.Name) != nil: // children need all of their parents
		return ""
	case s.Months.Set():
		return "months " + s.Months.Month + " " + s.Months.Year
	case i.Set():
		return i.Field + " " + i.Param
	}
	return ""
}

// begin makes m the beginning of a pass that follows the one with the end mark
// prev: over what has changed since, or over the whole list, where that is due
// or nothing is known. now is our clock.
func (m *mark) begin(prev mark, by string, s schemas.Stream, now time.Time) {
	m.Frame = newFrame(s, now)
	if by == "" {
		return
	}
	m.By, m.Whole = by, now.UTC()
	i, every := s.Incremental, s.Incremental.Every()
	if s.Months.Set() {
		every = s.Months.Every()
	}
	switch {
	case s.Range.Set():
		if !m.Frame.set() {
			m.Since = s.Range.From.Add(-slack(i.Format))
		}
		return
	case !prev.End || prev.By != by:
		return
	}
	m.Top, m.Edge = prev.Top, prev.Edge
	due := prev.Whole.IsZero() || now.Sub(prev.Whole) >= every || prev.Whole.After(now)
	switch {
	case m.Frame.set():
		if !due {
			m.Frame.recent(s.Months)
			m.Whole = prev.Whole
		}
	case i.Param == "" && !due:
		m.Tail, m.Whole = true, prev.Whole
	case i.Param == "" || prev.Settled.IsZero():
	case due:
		m.Before = prev.Settled.Add(-i.Overlap())
	default:
		m.Since, m.Whole = prev.Settled.Add(-i.Overlap()), prev.Whole
	}
}

// left is what the next pass is told, once this one has ended.
func (m *mark) left() recall {
	edge := m.Top
	if !m.Began.IsZero() && m.Began.Before(edge) {
		edge = m.Began
	}
	settled := edge
	if m.partial() && m.Pages > 1 {
		settled = m.Edge
	}
	return recall{By: m.By, Top: m.Top, Edge: edge, Settled: settled, Whole: m.Whole}
}

// partial reports whether the pass leaves records out.
func (m *mark) partial() bool { return m.Tail || !m.Since.IsZero() || m.Frame.Part }

// bounds are the parameters that leave out what was changed before.
func (m *mark) bounds(s schemas.Stream) []bound {
	if m.Since.IsZero() {
		return nil
	}
	p := schemas.Param{Name: s.Incremental.Param, In: placeOf(s)}
	return []bound{{p, momentJSON(m.Since, s.Incremental.Format)}}
}

// skew is how far ahead of ours a source's clock may be, its zone included. What
// claims to have been changed later than that is no measure for anything.
const skew = 26 * time.Hour

// observed is what a page's records say about when they were changed.
type observed struct {
	recent int64 // changed at the bound or later, or nobody knows when
	stale  int64 // changed before it
}

// observe looks at the moments in the records of a page, a JSON array. a is the
// answer it came in, nil for one pieced together.
func (p *pass) observe(records []byte, a *answer) error {
	m, i := &p.mark, p.s.Incremental
	if m.By == "" {
		return nil
	}
	if a != nil && m.Began.IsZero() && i.Format != schemas.MomentDateTime && i.Format != schemas.MomentDate {
		if at, err := http.ParseTime(a.resp.Header.Get("Date")); err == nil {
			m.Began = at.UTC()
		}
	}
	since := m.Since
	if since.IsZero() {
		since = m.Before
	}
	latest := p.c.cfg.Now().Add(skew)
	d := p.c.docs.Get().(*doc)
	defer p.c.docs.Put(d)
	if err := d.scan(records); err != nil {
		return err
	}
	for r := range d.elements(d.root()) {
		at, ok := d.moment(d.get(r, i.Field), i.Format)
		if ok && at.After(m.Top) && at.Before(latest) {
			m.Top = at
		}
		if ok && at.Before(since) {
			p.seen.stale++
		} else {
			p.seen.recent++
		}
	}
	return d.err
}

// bounded finishes a page once its records were observed: its cursor, and what
// an incremental pass says at its end.
func (p *pass) bounded(page Page) Page {
	m := &p.mark
	page.Next = m.cursor()
	switch {
	case page.End != nil:
		page.Next = m.ending()
		page.End.Partial, page.End.Since = m.partial(), m.Since
		if !p.resumed {
			page.End.Before, page.End.Recent = m.Before, p.seen.recent
		}
		page.End.Note = notes(notes(page.End.Note, p.stray()), p.endless())
	case m.Tail:
		page.Exit = &Exit{Next: m.ending(), End: &End{
			Rule: RuleKnown, Resumed: p.resumed, Pages: m.Pages, FirstTotal: -1, LastTotal: -1, Partial: true, Note: p.note,
		}}
	}
	return page
}

// stray says that a filter has let pass what it should have left out.
func (p *pass) stray() string {
	if p.mark.Since.IsZero() || p.seen.stale == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d records are older than %s asked for", p.seen.stale, p.seen.stale+p.seen.recent, p.s.Incremental.Param)
}

// endless says that a range was read beyond its end.
func (p *pass) endless() string {
	if p.mark.Since.IsZero() || p.s.Range.Until.IsZero() {
		return ""
	}
	return "the source takes no end of a range: it was read to the present"
}

// moment reads a value as the time that it tells.
func (d *doc) moment(v value, format string) (time.Time, bool) {
	if !v.ok() {
		return time.Time{}, false
	}
	return parseMoment(d.text(v), format)
}

// layouts are how the formats that are no numbers are written.
var layouts = map[string]string{
	schemas.MomentRFC3339:  time.RFC3339Nano,
	schemas.MomentDateTime: "2006-01-02 15:04:05",
	schemas.MomentDate:     time.DateOnly,
}

func parseMoment(text, format string) (time.Time, bool) {
	switch format {
	case schemas.MomentUnix, schemas.MomentUnixMS:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return time.Time{}, false
		}
		if format == schemas.MomentUnix {
			return time.Unix(n, 0).UTC(), true
		}
		return time.UnixMilli(n).UTC(), true
	}
	at, err := time.Parse(layouts[format], text)
	return at.UTC(), err == nil
}

// momentJSON is at as a parameter, cut to the format's step: never later.
func momentJSON(at time.Time, format string) []byte {
	switch format {
	case schemas.MomentUnix:
		return strconv.AppendInt(nil, at.Unix(), 10)
	case schemas.MomentUnixMS:
		return strconv.AppendInt(nil, at.UnixMilli(), 10)
	case schemas.MomentRFC3339:
		at = at.Truncate(time.Second)
	}
	text, _ := json.Marshal(at.UTC().Format(layouts[format])) // a string always marshals
	return text
}
