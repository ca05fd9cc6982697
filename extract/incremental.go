package extract

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/penstock-data/penstock/extract/jsondoc"
	"github.com/penstock-data/penstock/schemas"
)

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

// begin sets which part of the list a pass requests. The argument `prev` is the cursor of the previous pass, and now is
// the time by [Config.Now].
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
			m.Before = prev.Settled.Add(-i.Overlap()) // new probes found another parameter: this whole pass finds the changes that earlier passes missed
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

func (m *passCursor) bounds(s schemas.Stream) []bound {
	if m.Since.IsZero() {
		return nil
	}
	p := schemas.Param{Name: s.Incremental.Param, In: placeOf(s)}
	return []bound{{p, momentJSON(m.Since, s.Incremental.Format)}}
}

// unknownClock is used if the source does not report its time. The clock [Config.Now] is assumed to be at most this
// far ahead of the source's clock.
const unknownClock = time.Hour

// clock sets the time Began of the pass: when its first page was requested, by the source's clock. The pass may miss
// changes after this time.
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

// observe returns for each record whether its last change is before the time m.Before. It returns nil if m.Before is
// unknown. The argument `records` is a JSON array. The argument a is the answer, or nil if the page was put together
// from several answers. In a whole pass, a record without a time counts as changed before m.Before, because incremental
// passes may never find it.
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
	m.Misplaced = fmt.Sprintf("on page %d a record with %s %s comes after a record with %s", m.Pages, i.Field, at.Format(time.RFC3339), least.Format(time.RFC3339))
	if m.Tail {
		m.Tail, m.Whole = false, p.c.cfg.Now().UTC()
	}
}

// bounded() adds to a page what an incremental pass knows about times. If the list has the latest change first, the
// pass ends at a page whose records were all changed before m.Before. All records after this page were changed even
// earlier.
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
	return fmt.Sprintf("%d of %d records are older than the time that was requested with %s", p.seen.stale, p.seen.records, p.s.Incremental.Param)
}

func (p *pass) rangeEndNote() string {
	if p.mark.Since.IsZero() || p.s.Range.Until.IsZero() {
		return ""
	}
	return "the source accepts no end of a range, so the list was read up to the present"
}
