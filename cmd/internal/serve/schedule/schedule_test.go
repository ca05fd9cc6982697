package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// clock is a schedule for comparison. It lists the values of each field; nil means all. It uses neither the cron
// parser nor this package.
type clock struct {
	second, minute, hour, dom, month, dow []int
	repeats                               bool // a time of day that occurs twice is due twice
}

func (c clock) names(t time.Time) bool {
	in := func(list []int, n int) bool { return list == nil || slices.Contains(list, n) }
	day := in(c.dom, t.Day()) && in(c.dow, int(t.Weekday()))
	if c.dom != nil && c.dow != nil {
		day = slices.Contains(c.dom, t.Day()) || slices.Contains(c.dow, int(t.Weekday()))
	}
	second := c.second == nil && t.Second() == 0 || slices.Contains(c.second, t.Second())
	return second && in(c.minute, t.Minute()) && in(c.hour, t.Hour()) && in(c.month, int(t.Month())) && day
}

// walked() finds the slots of a clock in the simplest way: it goes through the time in steps and checks each time
// of day.
func walked(c clock, zone *time.Location, from, to time.Time, step time.Duration) []time.Time {
	var all []time.Time
	shown := from.Add(-48 * time.Hour) // the latest time of day so far, as if it were UTC
	last := wallTime(from.Add(-step).In(zone))
	for at := from; at.Before(to); at = at.Add(step) {
		wall := wallTime(at.In(zone))
		due := c.names(wall) && (c.repeats || wall.After(shown))
		for gone := last.Add(step); gone.Before(wall); gone = gone.Add(step) {
			due = due || c.names(gone)
		}
		if due {
			all = append(all, at.In(zone))
		}
		if last = wall; wall.After(shown) {
			shown = wall
		}
	}
	return all
}

func wallTime(local time.Time) time.Time {
	y, m, d := local.Date()
	h, min, s := local.Clock()
	return time.Date(y, m, d, h, min, s, 0, time.UTC)
}

func computed(s Schedule, from, to time.Time) []time.Time {
	var all []time.Time
	for at := s.Next(from.Add(-time.Second)); !at.IsZero() && at.Before(to); at = s.Next(at) {
		all = append(all, at)
	}
	return all
}

func same(t require.TestingT, want, got []time.Time, about string) {
	for i := range min(len(want), len(got)) {
		require.True(t, want[i].Equal(got[i]), "%s: slot %d is %s, want %s", about, i, got[i], want[i])
	}
	require.Len(t, got, len(want), about)
}

func list(from, to, step int) []int {
	var all []int
	for i := from; i <= to; i += step {
		all = append(all, i)
	}
	return all
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	require.NoError(t, err)
	return z
}

// changing are zones in which the clock changes by 30, 60 and 120 minutes, at midnight, and four times a year.
var changing = []string{"Australia/Lord_Howe", "Europe/Berlin", "America/New_York", "Antarctica/Troll", "America/Santiago", "Africa/Casablanca"}

func TestReference(t *testing.T) {
	cases := map[string]clock{
		"30 2 * * *":       {minute: []int{30}, hour: []int{2}},
		"15 2 * * *":       {minute: []int{15}, hour: []int{2}},
		"0 0 * * *":        {minute: []int{0}, hour: []int{0}},
		"0 3 * * 0":        {minute: []int{0}, hour: []int{3}, dow: []int{0}},
		"45 1 1,29 2-4 5":  {minute: []int{45}, hour: []int{1}, dom: []int{1, 29}, month: []int{2, 3, 4}, dow: []int{5}},
		"5 */2 * * *":      {minute: []int{5}, hour: list(0, 22, 2)},
		"@hourly":          {minute: []int{0}, repeats: true},
		"*/15 * * * *":     {minute: list(0, 45, 15), repeats: true},
		"*/20 1-3 * * sun": {minute: list(0, 40, 20), hour: []int{1, 2, 3}, dow: []int{0}, repeats: true},
		"@monthly":         {minute: []int{0}, hour: []int{0}, dom: []int{1}},
		"0 30 2 * * *":     {minute: []int{30}, hour: []int{2}},
	}
	from := time.Date(2025, 12, 31, 23, 30, 0, 0, time.UTC)
	to := from.AddDate(5, 0, 0)
	if testing.Short() {
		to = from.AddDate(1, 0, 0)
	}
	for _, name := range changing {
		z := zone(t, name)
		for text, c := range cases {
			s, err := Parse(text, z)
			require.NoError(t, err)
			same(t, walked(c, z, from, to, time.Minute), computed(s, from, to), text+" "+name)
		}
	}
}

// TestReferenceSeconds compares schedules of any form with walked, second by second, around changes of the clock.
func TestReferenceSeconds(t *testing.T) {
	around := []time.Time{
		time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC), time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC), // Berlin, Troll
		time.Date(2026, 4, 4, 12, 0, 0, 0, time.UTC), time.Date(2026, 10, 3, 12, 0, 0, 0, time.UTC), // Lord Howe
		time.Date(2026, 3, 8, 6, 0, 0, 0, time.UTC), time.Date(2026, 11, 1, 5, 0, 0, 0, time.UTC), // New York
		time.Date(2026, 9, 6, 3, 0, 0, 0, time.UTC), time.Date(2026, 4, 5, 2, 0, 0, 0, time.UTC), // Santiago, at midnight
	}
	rapid.Check(t, func(t *rapid.T) {
		c := clock{
			second: drawField(t, "second", 0, 59), minute: drawField(t, "minute", 0, 59), hour: drawField(t, "hour", 0, 4),
		}
		c.repeats = len(c.second) > 1 || c.minute == nil || len(c.minute) > 1 || c.hour == nil
		text := fmt.Sprintf("%s %s %s * * *", field(c.second), field(c.minute), field(c.hour))
		if c.second == nil {
			text = strings.TrimPrefix(text, "* ")
		}
		name := rapid.SampledFrom(changing).Draw(t, "zone")
		z, err := time.LoadLocation(name)
		require.NoError(t, err)
		s, err := Parse(text, z)
		require.NoError(t, err, text)
		from := rapid.SampledFrom(around).Draw(t, "around").Add(-3 * time.Hour)
		to := from.Add(8 * time.Hour)
		same(t, walked(c, z, from, to, time.Second), computed(s, from, to), text+" "+name)
	})
}

func drawField(t *rapid.T, what string, low, high int) []int {
	some := rapid.SliceOfNDistinct(rapid.IntRange(low, high), 0, 3, rapid.ID[int]).Draw(t, what)
	slices.Sort(some)
	if len(some) == 0 {
		return nil
	}
	return some
}

func field(list []int) string {
	if list == nil {
		return "*"
	}
	words := make([]string, len(list))
	for i, n := range list {
		words[i] = strconv.Itoa(n)
	}
	return strings.Join(words, ",")
}

func TestDaylight(t *testing.T) {
	for _, tt := range []struct {
		text, zone, from string
		want             []string
	}{
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", []string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:30:00+02:00"}},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", []string{"2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"}},
		{"*/30 * * * *", "Europe/Berlin", "2026-03-29T00:15:00Z", []string{"2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:30:00+02:00"}},
		{"*/30 * * * *", "Europe/Berlin", "2026-10-25T00:15:00Z", []string{"2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00", "2026-10-25T02:30:00+01:00", "2026-10-25T03:00:00+01:00"}},
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T00:00:00Z", []string{"2026-10-04T02:30:00+11:00"}},
		{"0 2 * * *", "Antarctica/Troll", "2026-03-28T12:00:00Z", []string{"2026-03-29T03:00:00+02:00", "2026-03-30T02:00:00+02:00"}},
		{"0 12 29 2 *", "UTC", "2096-03-01T00:00:00Z", []string{"2104-02-29T12:00:00Z"}},
		{"@every 90m", "Europe/Berlin", "2026-11-21T00:10:00Z", []string{"2026-11-21T02:30:00+01:00", "2026-11-21T04:00:00+01:00"}},
	} {
		s, err := Parse(tt.text, zone(t, tt.zone))
		require.NoError(t, err)
		from, err := time.Parse(time.RFC3339, tt.from)
		require.NoError(t, err)
		var got []string
		for _, at := range s.Upcoming(from, len(tt.want)) {
			got = append(got, at.Format(time.RFC3339))
		}
		require.Equal(t, tt.want, got, "%s %s", tt.text, tt.zone)
	}
}

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"61 * * * *":           "above maximum",
		"0 0 30 2 *":           "never fires",
		"@every 0s":            "whole seconds",
		"@every 1500ms":        "whole seconds",
		"@dayly":               "unrecognized descriptor",
		"* * *":                "expected",
		"TZ=UTC 0 2 * * *":     "set the time zone with the key `zone`",
		"CRON_TZ=UTC @monthly": "set the time zone with the key `zone`",
	} {
		_, err := Parse(text, time.UTC)
		require.ErrorContains(t, err, want, text)
	}
	s, err := Parse("0 2 * * *", zone(t, "Europe/Berlin"))
	require.NoError(t, err)
	require.Equal(t, "0 2 * * * Europe/Berlin", s.String())
	require.True(t, Schedule{}.Next(time.Now()).IsZero(), "the zero schedule has no slots")
	require.Empty(t, Schedule{}.String())
}

func TestBetween(t *testing.T) {
	s, err := Parse("@every 10s", time.UTC)
	require.NoError(t, err)
	from := time.Unix(1_800_000_000, 0)
	rapid.Check(t, func(t *rapid.T) {
		n, most := rapid.IntRange(0, 200).Draw(t, "slots"), rapid.IntRange(1, 50).Draw(t, "most")
		before, slots := s.Between(from, from.Add(time.Duration(n)*10*time.Second), most)
		want := s.Upcoming(from, n)
		require.Equal(t, n, before.Count+len(slots))
		if n > 0 {
			same(t, want[before.Count:], slots, "the last slots")
		}
		if before.Count > 0 {
			require.Equal(t, most, len(slots))
			require.True(t, before.First.Equal(want[0]) && before.Last.Equal(want[before.Count-1]))
		}
	})
	before, slots := s.Between(from, from.AddDate(50, 0, 0), 1000)
	require.Len(t, slots, 1000, "the limit also applies to a range of fifty years")
	require.True(t, slots[999].Equal(from.AddDate(50, 0, 0)))
	require.Greater(t, before.Count, 100_000)
}

func TestJitter(t *testing.T) {
	at := time.Unix(1_800_000_000, 0)
	seen := map[time.Duration]bool{}
	for i := range 1000 {
		j := Jitter("nightly", at.Add(time.Duration(i)*time.Hour), 5*time.Minute)
		require.True(t, j >= 0 && j < 5*time.Minute)
		seen[j] = true
	}
	require.Greater(t, len(seen), 200, "the delays differ")
	require.Equal(t, Jitter("a", at, time.Hour), Jitter("a", at, time.Hour))
	require.NotEqual(t, Jitter("a", at, time.Hour), Jitter("b", at, time.Hour))
	require.Zero(t, Jitter("a", at, 0))
}
