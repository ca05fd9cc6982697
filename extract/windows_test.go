package extract

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/penstock-data/penstock/schemas"
)

type calendar struct {
	*fixture
	stream schemas.Stream

	mu       sync.Mutex
	at       []time.Time // times of the records; the first record has id 1
	format   string
	requests [][2]string

	lowExclusive, highInclusive bool
	ignores                     bool
	zone                        *time.Location
	fail                        func(window string) bool
}

func newCalendar(t *testing.T, s schemas.Stream, at ...time.Time) *calendar {
	c := &calendar{stream: s, at: at, format: s.Incremental.Format, zone: time.UTC}
	c.fixture = serve(t, c.answer, s)
	return c
}

func ranged(format string) schemas.Stream {
	s := list("x.things", "id")
	s.Incremental = schemas.Incremental{Field: "at", Format: format, Param: "since", Until: "until"}
	return s
}

func monthly() schemas.Stream {
	s := list("x.things", "id")
	s.Window = true
	s.Months = schemas.Months{Month: "month", Year: "year"}
	return s
}

func (c *calendar) answer(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := r.URL.Query()
	window := [2]string{q.Get("since"), q.Get("until")}
	if q.Has("month") {
		window = [2]string{q.Get("year"), q.Get("month")}
	}
	if c.fail != nil && c.fail(window[0]) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, `{"message":"no"}`)
		return
	}
	c.requests = append(c.requests, window)
	all := []map[string]any{}
	for i, at := range c.at {
		if c.ignores || c.shows(at, q.Has("month"), window) {
			all = append(all, map[string]any{"id": i + 1, "at": json.RawMessage(c.text(at))})
		}
	}
	page := number(r, "page", 1)
	last := max(1, (len(all)+9)/10)
	all = all[min(len(all), (page-1)*10):min(len(all), page*10)]
	text, _ := json.Marshal(all)
	items(w, string(text), len(all), page, last)
}

func (c *calendar) text(at time.Time) []byte {
	if zoneless(c.format) {
		at = time.Date(at.In(c.zone).Year(), at.In(c.zone).Month(), at.In(c.zone).Day(), at.In(c.zone).Hour(), at.In(c.zone).Minute(), at.In(c.zone).Second(), 0, time.UTC)
	}
	return momentJSON(at, c.format)
}

func (c *calendar) shows(at time.Time, month bool, window [2]string) bool {
	if month {
		return fmt.Sprint(at.Year()) == window[0] && fmt.Sprint(int(at.Month())) == window[1]
	}
	local, _ := parseMoment(bound{value: c.text(at)}.text(), c.format)
	if from, ok := parseMoment(window[0], c.format); ok && (local.Before(from) || c.lowExclusive && local.Equal(from)) {
		return false
	}
	until, ok := parseMoment(window[1], c.format)
	return !ok || local.Before(until) || c.highInclusive && local.Equal(until)
}

func (c *calendar) change(set func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	set()
}

func (c *calendar) windows() [][2]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Compact(slices.Clone(c.requests))
}

func utc(y int, m time.Month, d, hour int) time.Time {
	return time.Date(y, m, d, hour, 0, 0, 0, time.UTC)
}

func (r reading) set() string {
	ids := strings.Split(r.ids(), ",")
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
	return strings.Join(slices.Compact(ids), ",")
}

func TestRangeByMonths(t *testing.T) {
	bounds := []time.Time{
		utc(2024, 1, 31, 23), utc(2024, 2, 1, 0), utc(2024, 2, 1, 0), utc(2024, 2, 1, 0), // equal times at a bound
		utc(2024, 2, 29, 23), utc(2024, 3, 1, 0), utc(2024, 3, 31, 1), utc(2024, 4, 1, 0), utc(2024, 4, 14, 12),
	}
	for _, format := range schemas.MomentFormats() {
		for i := range 4 {
			t.Run(fmt.Sprint(format, i), func(t *testing.T) {
				c := newCalendar(t, ranged(format), append([]time.Time{utc(2023, 5, 1, 0)}, append(bounds, utc(2024, 9, 1, 0))...)...)
				c.lowExclusive, c.highInclusive = i&1 > 0, i&2 > 0
				c.stream.Range = schemas.Range{From: utc(2024, 1, 31, 23), Until: utc(2024, 4, 15, 0)}
				r, err := read(c.Client, c.stream, "")
				require.NoError(t, err)
				require.Equal(t, "2,3,4,5,6,7,8,9,10", r.set())
				require.Len(t, c.windows(), 4)
				require.Equal(t, RuleWindows, r.end.Rule)
				require.Equal(t, 4, r.end.Windows)
				require.True(t, r.end.Partial)
			})
		}
	}
}

func TestRangeWithoutZone(t *testing.T) {
	for _, hours := range []int{-11, 0, 13} {
		c := newCalendar(t, ranged(schemas.MomentDateTime), utc(2025, 1, 1, 0), utc(2025, 1, 31, 23), utc(2025, 2, 1, 0), utc(2025, 2, 28, 23))
		c.zone = time.FixedZone("", hours*3600)
		c.stream.Range = schemas.Range{From: utc(2025, 1, 1, 0), Until: utc(2025, 3, 1, 0)}
		r, err := read(c.Client, c.stream, "")
		require.NoError(t, err)
		require.Equal(t, wanted(4), r.set(), "%d hours from UTC", hours)
	}
}

func TestRangeWithoutUntil(t *testing.T) {
	s := ranged(schemas.MomentRFC3339)
	s.Incremental.Until = ""
	var at []time.Time
	for i := range 45 {
		at = append(at, utc(2025, 3, 1, i))
	}
	c := newCalendar(t, s, at...)
	c.lowExclusive = true
	s.Range = schemas.Range{From: at[5]}
	r, err := read(c.Client, s, "")
	require.NoError(t, err)
	require.Len(t, r.records, 40)
	require.True(t, r.end.Partial)
	require.Equal(t, 4, r.pages)
	rest, err := read(c.Client, s, r.cursors[1])
	require.NoError(t, err)
	require.Len(t, rest.records, 20)
	s.Range.From = at[30] // another range is another pass
	rest, err = read(c.Client, s, r.cursors[1])
	require.NoError(t, err)
	require.Len(t, rest.records, 15)
	require.Empty(t, rest.end.Note)
	s.Range.Until = at[40] // an end that the source does not accept is ignored and reported
	rest, err = read(c.Client, s, "")
	require.NoError(t, err)
	require.Len(t, rest.records, 15)
	require.Contains(t, rest.end.Note, "accepts no end of a range")
}

func TestRangeIsRead(t *testing.T) {
	c := newCalendar(t, ranged(schemas.MomentRFC3339), utc(2023, 1, 10, 0), utc(2025, 2, 1, 0), utc(2025, 9, 1, 0))
	c.ignores = true
	c.stream.Range = schemas.Range{From: utc(2025, 1, 1, 0), Until: utc(2025, 12, 1, 0)}
	_, err := read(c.Client, c.stream, "")
	require.ErrorContains(t, err, "ignores the parameter")
}

func TestMonths(t *testing.T) {
	now := month(time.Now())
	var at []time.Time
	for _, back := range []int{0, 1, 2, 3, 14, 26} { // eleven months between the last two are empty
		at = append(at, now.AddDate(0, -back, 3))
	}
	at = append(at, now.AddDate(0, -40, 0)) // more than one year without records
	c := newCalendar(t, monthly(), at...)
	r, err := read(c.Client, c.stream, "")
	require.NoError(t, err)
	require.Equal(t, wanted(6), r.set())
	require.Equal(t, RuleWindows, r.end.Rule)
	require.False(t, r.end.Partial)
	end := r.cursors[len(r.cursors)-1]

	c.change(func() { c.requests = nil })
	r, err = read(c.Client, c.stream, end)
	require.NoError(t, err)
	require.Equal(t, wanted(3), r.set())
	require.True(t, r.end.Partial)
	require.LessOrEqual(t, r.end.Windows, 4)
	end = r.cursors[len(r.cursors)-1]

	s := c.stream
	s.Months.Full = time.Nanosecond
	r, err = read(c.Client, s, end)
	require.NoError(t, err)
	require.Equal(t, wanted(6), r.set())
	require.False(t, r.end.Partial)

	s.Months.First = now.AddDate(0, -40, 0)
	r, err = read(c.Client, s, "")
	require.NoError(t, err)
	require.Equal(t, wanted(7), r.set())

	s.Range = schemas.Range{From: now.AddDate(0, -14, 0), Until: now.AddDate(0, -1, 0)}
	c.change(func() { c.requests = nil })
	r, err = read(c.Client, s, "")
	require.NoError(t, err)
	require.Equal(t, "3,4,5", r.set())
	windows := slices.DeleteFunc(c.windows(), func(w [2]string) bool {
		return w[0] < fmt.Sprint(now.Year()-2) // the previous reading sent this request in advance, and it arrived late
	})
	require.Len(t, windows, 13)
}

func TestMonthsWithoutRecords(t *testing.T) {
	c := newCalendar(t, monthly())
	r, err := read(c.Client, c.stream, "")
	require.NoError(t, err)
	require.Empty(t, r.records)
	require.Equal(t, leadingEmptyMonths, r.end.Windows)
}

func TestWindowsAreResumed(t *testing.T) {
	for name, s := range map[string]schemas.Stream{"range": ranged(schemas.MomentRFC3339), "months": monthly()} {
		t.Run(name, func(t *testing.T) {
			var at []time.Time
			for i := range 12 {
				at = append(at, utc(2025, time.Month(i+1), 10, 0))
			}
			c := newCalendar(t, s, at...)
			c.stream.Range = schemas.Range{From: utc(2025, 1, 1, 0), Until: utc(2026, 1, 1, 0)}
			whole, err := read(c.Client, c.stream, "")
			require.NoError(t, err)
			require.Equal(t, wanted(12), whole.set())
			all := c.windows()
			require.Len(t, all, 12)
			for n, cursor := range whole.cursors[:len(whole.cursors)-1] {
				c.change(func() { c.requests = nil })
				rest, err := read(c.Client, c.stream, cursor)
				require.NoError(t, err)
				require.Len(t, rest.records, 12-n-1, "after window %d", n+1)
				require.True(t, rest.end.Resumed)
				require.Len(t, c.windows(), 12-n-1)
				require.Subset(t, all, c.windows())
				require.Equal(t, 12, rest.end.Windows)
			}
		})
	}
}

func TestWindowRefused(t *testing.T) {
	c := newCalendar(t, ranged(schemas.MomentRFC3339), utc(2025, 1, 2, 0), utc(2025, 3, 2, 0))
	c.fail = func(since string) bool { return strings.HasPrefix(since, "2025-02-28") }
	c.stream.Range = schemas.Range{From: utc(2025, 1, 1, 0), Until: utc(2025, 4, 1, 0)}
	r, err := read(c.Client, c.stream, "")
	require.Error(t, err)
	require.Nil(t, r.end)
	require.Equal(t, "1", r.ids())
	c.change(func() { c.fail = nil })
	rest, err := read(c.Client, c.stream, r.cursors[len(r.cursors)-1])
	require.NoError(t, err)
	require.Equal(t, "2", rest.ids())
}

func (c *calendar) interrupted(t require.TestingT, after int) reading {
	var r reading
	for page, err := range c.Pages(context.Background(), c.stream, "") {
		require.NoError(t, err)
		var records []json.RawMessage
		require.NoError(t, json.Unmarshal(page.Records, &records))
		for _, rec := range records {
			r.records = append(r.records, bytes.Clone(rec))
		}
		if page.End != nil {
			return r
		}
		if after--; after < 0 {
			rest, err := read(c.Client, c.stream, page.Next)
			require.NoError(t, err)
			r.records = append(r.records, rest.records...)
			return r
		}
	}
	return r
}

func TestRangeProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		from := utc(2023, 1, 1, 0).Add(time.Duration(rapid.IntRange(0, 24*400).Draw(rt, "from")) * time.Hour)
		until := from.Add(time.Duration(rapid.IntRange(1, 24*400).Draw(rt, "hours")) * time.Hour)
		var at []time.Time
		for range rapid.IntRange(0, 40).Draw(rt, "records") {
			d := time.Duration(rapid.IntRange(-24*40, 24*440).Draw(rt, "at")) * time.Hour
			at = append(at, rapid.SampledFrom([]time.Time{from.Add(d), month(from.Add(d)), from, until}).Draw(rt, "moment"))
		}
		format := rapid.SampledFrom(schemas.MomentFormats()).Draw(rt, "format")
		c := newCalendar(t, ranged(format), at...)
		c.lowExclusive, c.highInclusive = rapid.Bool().Draw(rt, "low"), rapid.Bool().Draw(rt, "high")
		c.stream.Range = schemas.Range{From: from, Until: until}
		r := c.interrupted(rt, rapid.IntRange(0, 20).Draw(rt, "stop"))
		come := "," + r.set() + ","
		for i, at := range at {
			if !at.Before(from) && at.Before(until) {
				require.Contains(rt, come, fmt.Sprintf(",%d,", i+1), "of %s", at)
			}
			if at.Before(from.Add(-2*skew)) || at.After(until.Add(2*skew)) {
				require.NotContains(rt, come, fmt.Sprintf(",%d,", i+1), "of %s", at)
			}
		}
	})
}
