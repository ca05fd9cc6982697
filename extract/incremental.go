package extract

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/schemas"
)

// recall is what a pass of an incremental stream leaves to the next pass, in the cursor.
//
// The edge of a pass is the time up to which it has read the changes. But a record that changes during the pass moves
// to another page, and other records shift. So a pass with several pages may miss a record. That is why the next pass
// begins at an earlier edge: pass 3 begins at the edge of pass 1, and pass 4 at the edge of pass 2 or later. The edge
// at which the next pass may begin is called settled. The edge of the first pass is settled at once, because there is
// no earlier one. If two passes miss a change, the next whole pass finds it.
type recall struct {
	By        string    `json:"by,omitempty"`        // the field and parameter that limit the pass
	Since     time.Time `json:"since,omitzero"`      // the request leaves out records changed before this time
	Tail      bool      `json:"tail,omitempty"`      // the list has the latest change first: the pass ends at a page with only records changed before Before
	Before    time.Time `json:"before,omitzero"`     // the settled edge minus the lookback: records changed earlier cannot be new
	Top       time.Time `json:"top,omitzero"`        // latest time of change seen so far, at most Began
	Began     time.Time `json:"began,omitzero"`      // changes during this pass have this time or a later one
	ClockBack bool      `json:"behind,omitempty"`    // the source's clock was set back: the next pass is whole
	Misplaced string    `json:"misplaced,omitempty"` // how a page contradicts the order: see misplace
	Edge      time.Time `json:"edge,omitzero"`       // the edge of the last finished pass
	Settled   time.Time `json:"settled,omitzero"`    // the edge at which the next pass may begin
	Whole     time.Time `json:"whole,omitzero"`      // when the last whole pass began, by [Config.Now]
}

func (c *Client) by(s schemas.Stream) string {
	switch i := s.Incremental; {
	case s.Range.Set():
		return fmt.Sprintf("%s %s %s %s..%s", s.Months.Month, i.Param, i.Until, s.Range.From, s.Range.Until)
	case s.Range.Whole, c.fedBy(s.Name) != nil: // children need all their parents
		return ""
	case s.Months.Set():
		return "months " + s.Months.Month + " " + s.Months.Year
	case i.Set():
		return i.Field + " " + i.Param
	}
	return ""
}

// begin sets what the pass after prev requests. now is the time by [Config.Now].
func (m *passCursor) begin(prev passCursor, by string, s schemas.Stream, now time.Time) {
	m.Plan = newWindowPlan(s, now)
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
		if !m.Plan.set() {
			m.Since = s.Range.From.Add(-slack(i.Format))
		}
		return
	case !prev.End:
		return
	case prev.By != by:
		if i.Auto && !prev.Settled.IsZero() && strings.HasPrefix(prev.By, i.Field+" ") {
			m.Before = prev.Settled.Add(-i.Overlap()) // the probes found another parameter: this whole pass checks the earlier passes
		}
		return
	}
	m.Top, m.Edge = prev.Top, prev.Edge
	due := prev.Whole.IsZero() || now.Sub(prev.Whole) >= every || prev.Whole.After(now)
	if m.Plan.set() {
		if !due {
			m.Plan.recent(s.Months)
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

// nextRecall returns what this pass leaves to the next. If this pass has several pages, it may have missed changes
// before its own edge. So it settles only the edge of the pass before.
func (m *passCursor) nextRecall() recall {
	if m.ClockBack {
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

func (m *passCursor) partial() bool { return m.Tail || !m.Since.IsZero() || m.Plan.Part }

func (m *passCursor) bounds(s schemas.Stream) []bound {
	if m.Since.IsZero() {
		return nil
	}
	p := schemas.Param{Name: s.Incremental.Param, In: placeOf(s)}
	return []bound{{p, momentJSON(m.Since, s.Incremental.Format)}}
}

// skew is the largest difference between two texts of one moment if they do not state their time zones.
const skew = 26 * time.Hour

// unknownClock is used if the source does not report its time. The clock [Config.Now] is assumed to be at most this
// far ahead of the source's clock.
const unknownClock = time.Hour

const westOfUTC = 12 * time.Hour

// earliest returns the earliest time that a record can state for a change at the given time.
func earliest(at time.Time, format string) time.Time {
	at = at.UTC()
	if zoneless(format) {
		at = at.Add(-westOfUTC)
	}
	return at.Truncate(stepOf(format))
}

// clock sets Began to the time of the first page's request, by the source's clock. The pass may miss later changes.
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
	m.ClockBack = m.Began.Before(m.Edge.Add(-i.Overlap()))
}

type observed struct {
	records int64
	stale   int64
}

// observe reports for each record whether it was changed before m.Before. records is a JSON array. a is nil for a
// page of several answers. The result is nil if m.Before is unknown. In a whole pass, a record without a time counts
// as older, because incremental passes may never find it.
func (p *pass) observe(records []byte, a *answer) (older []bool, err error) {
	m, i := &p.mark, p.s.Incremental
	if m.By == "" {
		return nil, nil
	}
	p.clock(a)
	d := p.c.docs.Get().(*jsondoc.Doc)
	defer p.c.docs.Put(d)
	if err := d.Scan(records); err != nil {
		return nil, err
	}
	least := time.Time{} // earliest time of the records so far
	for r := range d.Elements(d.Root()) {
		at, ok := momentAt(d, d.Get(r, i.Field), i.Format)
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
	return older, d.Err()
}

// misplace looks for a record that was changed later than a record above it, by more than the lookback. Such a list
// does not have the latest change first, so the pass reads it to the end.
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

// bounded adds the times to a page. If the list has the latest change first, the pass ends at a page with only
// records changed before m.Before: all records after them were changed earlier still.
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
		e.Note = notes(notes(e.Note, p.staleNote()), notes(p.rangeEndNote(), m.clockNote()))
	}
	return page
}

func (m *passCursor) clockNote() string {
	if !m.ClockBack {
		return ""
	}
	return fmt.Sprintf("the source's clock was set back to %s, before changes that were already seen: the next pass reads the whole list", m.Began.Format(time.RFC3339))
}

func (p *pass) staleNote() string {
	if p.mark.Since.IsZero() || p.seen.stale == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d records are older than requested by %s", p.seen.stale, p.seen.records, p.s.Incremental.Param)
}

func (p *pass) rangeEndNote() string {
	if p.mark.Since.IsZero() || p.s.Range.Until.IsZero() {
		return ""
	}
	return "the source accepts no end of a range: it was read up to the present"
}

func momentAt(d *jsondoc.Doc, v jsondoc.Value, format string) (time.Time, bool) {
	if !v.OK() {
		return time.Time{}, false
	}
	return parseMoment(bound{value: d.Raw(v)}.text(), format)
}

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

// momentJSON truncates a time to the precision of the format. It never rounds up.
func momentJSON(at time.Time, format string) []byte {
	switch format {
	case schemas.MomentUnix:
		return strconv.AppendInt(nil, at.Unix(), 10)
	case schemas.MomentUnixMS:
		return strconv.AppendInt(nil, at.UnixMilli(), 10)
	case schemas.MomentRFC3339:
		at = at.Truncate(time.Second)
	}
	text, _ := json.Marshal(at.UTC().Format(layouts[format]))
	return text
}
