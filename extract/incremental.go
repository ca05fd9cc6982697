package extract

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-data/penstock/schemas"
)

// recall is what a pass of an incremental stream knows of the passes before it,
// and leaves to the next one. The cursor holds it.
//
// A list changes while it is read: a changed record moves to another page, and another
// record may fall between two pages. So a pass of several pages does not settle its edge:
// the next pass begins where that pass had begun, and only the one after it begins at the
// edge. Two passes would have to miss a change, and then the next whole pass finds it.
type recall struct {
	By        string    `json:"by,omitempty"`        // what the bounds are about: field and parameter
	Since     time.Time `json:"since,omitzero"`      // the request leaves out what was changed before
	Tail      bool      `json:"tail,omitempty"`      // the latest change comes first: the pass ends at a page of records changed before Before
	Before    time.Time `json:"before,omitzero"`     // the settled edge minus the lookback: no record changed before it can be new
	Top       time.Time `json:"top,omitzero"`        // latest change that counts, in this pass or before
	Began     time.Time `json:"began,omitzero"`      // a change made during this pass has no earlier time
	Behind    bool      `json:"behind,omitempty"`    // the source's clock has gone back: the next pass is whole
	Misplaced string    `json:"misplaced,omitempty"` // how a page contradicts the order: see misplaced
	Edge      time.Time `json:"edge,omitzero"`       // up to where the last pass that has ended came
	Settled   time.Time `json:"settled,omitzero"`    // where the next pass may begin
	Whole     time.Time `json:"whole,omitzero"`      // when the last whole pass began, by our clock
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
func (m *passCursor) begin(prev passCursor, by string, s schemas.Stream, now time.Time) {
	m.Frame = newFrame(s, now)
	if by == "" {
		return
	}
	i, every := s.Incremental, s.Incremental.Every()
	m.By, m.Whole = by, now.UTC()
	m.Began = earliest(now.Add(-unknownClock), i.Format)
	if s.Months.Set() {
		every = s.Months.Every()
	}
	switch {
	case s.Range.Set():
		if !m.Frame.set() {
			m.Since = s.Range.From.Add(-slack(i.Format))
		}
		return
	case !prev.End:
		return
	case prev.By != by:
		if i.Auto && !prev.Settled.IsZero() && strings.HasPrefix(prev.By, i.Field+" ") {
			m.Before = prev.Settled.Add(-i.Overlap()) // the probes found another way: this whole pass checks the one before
		}
		return
	}
	m.Top, m.Edge = prev.Top, prev.Edge
	due := prev.Whole.IsZero() || now.Sub(prev.Whole) >= every || prev.Whole.After(now)
	if m.Frame.set() {
		if !due {
			m.Frame.recent(s.Months)
			m.Whole = prev.Whole
		}
		return
	}
	if prev.Settled.IsZero() {
		return
	}
	m.Before = prev.Settled.Add(-i.Overlap())
	if due {
		return
	}
	m.Whole = prev.Whole
	if m.Tail = i.Param == ""; !m.Tail {
		m.Since = m.Before
	}
}

// left is the recall of the next pass after this one has ended. A pass of several pages
// settles the edge of the previous pass, since its own may have a gap.
func (m *passCursor) left() recall {
	if m.Behind {
		return recall{By: m.By}
	}
	edge := m.Top
	if m.Began.Before(edge) {
		edge = m.Began
	}
	settled := edge
	if m.Pages > 1 && !m.Edge.IsZero() {
		settled = m.Edge
	}
	return recall{By: m.By, Top: m.Top, Edge: edge, Settled: settled, Whole: m.Whole}
}

// partial reports whether the pass leaves records out.
func (m *passCursor) partial() bool { return m.Tail || !m.Since.IsZero() || m.Frame.Part }

// bounds are the parameters that leave out what was changed before.
func (m *passCursor) bounds(s schemas.Stream) []bound {
	if m.Since.IsZero() {
		return nil
	}
	p := schemas.Param{Name: s.Incremental.Param, In: placeOf(s)}
	return []bound{{p, momentJSON(m.Since, s.Incremental.Format)}}
}

// skew is how far apart the clocks of two places are where no zone is named.
const skew = 26 * time.Hour

// unknownClock is how far ahead of the source's clock ours may be, for a source
// that does not say what its clock shows.
const unknownClock = time.Hour

// westOfUTC is how far behind UTC a clock may be whose zone is not known.
const westOfUTC = 12 * time.Hour

// earliest is the earliest time, as the format writes it, that a record can have
// which is changed at a moment or later.
func earliest(at time.Time, format string) time.Time {
	at = at.UTC()
	if zoneless(format) {
		at = at.Add(-westOfUTC)
	}
	return at.Truncate(stepOf(format))
}

// clock takes the beginning of the pass from the source's own clock, as its
// first answer shows it. The answer holds no change made after it was requested.
func (p *pass) clock(a *answer) {
	m, i := &p.mark, p.s.Incremental
	if a == nil || m.Pages > 1 {
		return
	}
	at, err := http.ParseTime(a.resp.Header.Get("Date"))
	if err != nil {
		return
	}
	m.Began = earliest(at.Add(-a.resp.Elapsed-time.Second), i.Format)
	m.Behind = m.Began.Before(m.Edge.Add(-i.Overlap()))
}

// observed is what a page's records say about when they were changed.
type observed struct {
	records int64
	stale   int64 // changed before Since
}

// observe looks at the moments in the records of a page, a JSON array. a is the
// answer that it came in, nil for a page pieced together from several. It
// returns, for each record, whether it was changed before m.Before; nil where
// there is no edge. In a whole pass a record without a time counts as older: that
// earlier passes would have found it, nothing shows.
func (p *pass) observe(records []byte, a *answer) (older []bool, err error) {
	m, i := &p.mark, p.s.Incremental
	if m.By == "" {
		return nil, nil
	}
	p.clock(a)
	d := p.c.docs.Get().(*doc)
	defer p.c.docs.Put(d)
	if err := d.scan(records); err != nil {
		return nil, err
	}
	least := time.Time{} // of the page's records so far
	for r := range d.elements(d.root()) {
		at, ok := d.moment(d.get(r, i.Field), i.Format)
		if ok && at.After(m.Top) && !at.After(m.Began) {
			m.Top = at
		}
		if ok && a != nil && i.Param == "" {
			p.misplace(least, at)
			if least.IsZero() || at.Before(least) {
				least = at
			}
		}
		p.seen.records++
		if ok && at.Before(m.Since) {
			p.seen.stale++
		}
		if !m.Before.IsZero() {
			older = append(older, at.Before(m.Before) && (ok || !m.partial()))
		}
	}
	return older, d.err
}

// misplace notes a record that was changed later than one above it on the same page, by
// more than the lookback. The list then does not have the latest change first, and a pass
// that relies on that order reads to the list's end.
func (p *pass) misplace(least, at time.Time) {
	m, i := &p.mark, p.s.Incremental
	if m.Misplaced != "" || least.IsZero() || at.Sub(least) <= i.Overlap() {
		return
	}
	m.Misplaced = fmt.Sprintf("on page %d a record with %s %s comes after one with %s", m.Pages, i.Field, at.Format(time.RFC3339), least.Format(time.RFC3339))
	if m.Tail {
		m.Tail, m.Whole = false, p.c.cfg.Now().UTC()
	}
}

// bounded finishes a page once its records were observed: its cursor, and what
// an incremental pass says at its end. A pass over a list that comes with the
// latest change first ends at a page all of whose records are older than the
// edge: what follows is older still.
func (p *pass) bounded(page Page, older []bool) Page {
	m := &p.mark
	page.Older, page.Edge, page.Partial = older, m.Before, m.partial()
	if page.End == nil && m.Tail && len(older) > 0 && !slices.Contains(older, false) {
		page.End = &End{Rule: RuleOlder, Resumed: p.resumed, Pages: m.Pages, FirstTotal: -1, LastTotal: -1, Note: p.note}
	}
	page.Next = m.cursor()
	if page.End != nil {
		page.Next = m.ending()
		e := page.End
		e.Partial, e.Since, e.Misplaced = m.partial(), m.Since, m.Misplaced
		if m.Tail {
			e.Since = m.Before
		}
		e.Note = notes(notes(e.Note, p.stray()), notes(p.endless(), m.wentBack()))
	}
	return page
}

// wentBack says that the source's clock did.
func (m *passCursor) wentBack() string {
	if !m.Behind {
		return ""
	}
	return fmt.Sprintf("the source's clock has gone back to %s, behind changes that were seen before: the next pass reads the whole list", m.Began.Format(time.RFC3339))
}

// stray says that a filter has let pass what it should have left out.
func (p *pass) stray() string {
	if p.mark.Since.IsZero() || p.seen.stale == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d records are older than %s asked for", p.seen.stale, p.seen.records, p.s.Incremental.Param)
}

// endless says that a range was read beyond its end.
func (p *pass) endless() string {
	if p.mark.Since.IsZero() || p.s.Range.Until.IsZero() {
		return ""
	}
	return "the source takes no end of a range: it was read to the present"
}

// moment reads a value as a time.
func (d *doc) moment(v value, format string) (time.Time, bool) {
	if !v.ok() {
		return time.Time{}, false
	}
	return parseMoment(bound{value: d.raw(v)}.text(), format)
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
