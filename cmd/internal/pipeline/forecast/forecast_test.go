package forecast

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/schemas"
)

func knowledge() Knowledge {
	stream := func(name, parent string, class schemas.Class) schemas.Stream {
		return schemas.Stream{Name: name, Parent: parent, Class: class}
	}
	return Knowledge{
		Streams: []schemas.Stream{
			stream("a.list", "", schemas.ClassList), stream("a.one", "a.list", schemas.ClassDetail),
			stream("b.list", "", schemas.ClassList), stream("b.new", "", schemas.ClassList), stream("b.me", "", schemas.ClassSingleton),
		},
		History: map[string]History{
			"a.list": {Records: 1000, Pages: 10, Requests: 12},
			"b.list": {Records: 50, Pages: 1, Requests: 2},
		},
		Sizes: map[string]Size{"b.new": {Records: 30, Pages: 4, Probes: 4, Bytes: 9000}}, Sent: 5,
		Find:     func(string) (schemas.Stream, bool) { return schemas.Stream{}, false },
		Expected: func(_ schemas.Stream, parents int64) int64 { return parents },
		Lane: func(stream string) Lane {
			if stream[0] == 'a' {
				return Lane{"a", 100, true}
			}
			return Lane{"b", 10, true}
		},
	}
}

func TestForecast(t *testing.T) {
	k := knowledge()
	f := New(k)
	by := map[string]Stream{}
	for _, s := range f.Streams {
		by[s.Stream] = s
	}
	require.Equal(t, Measured, by["a.list"].Basis)
	require.Equal(t, int64(12), by["a.list"].Requests)
	require.Equal(t, Derived, by["a.one"].Basis, "a request for each record of the parent")
	require.Equal(t, int64(1000), by["a.one"].Requests)
	require.Equal(t, Stated, by["b.new"].Basis)
	require.Equal(t, int64(8), by["b.new"].Requests, "the pages, and the probes of the first run")
	require.Equal(t, Single, by["b.me"].Basis)
	require.Equal(t, int64(12+1000+2+8+1), f.Requests)
	require.Zero(t, f.Guessed)
	require.False(t, f.AtLeast)
	require.Equal(t, int64(5), f.Sent)
	require.InDelta(t, 10.12, f.Seconds, 1e-9, "lanes run in parallel")
	require.InDelta(t, 10.12, by["a.one"].Ends, 1e-9)

	k.Deadline = time.Second
	f = New(k)
	require.Equal(t, 2, f.Skipped)
	require.False(t, f.Streams[0].Skipped)
	require.True(t, f.Streams[1].Skipped)

	k.Deadline = 0
	k.Last = RunDuration{Requests: 1023, Seconds: 40}
	require.InDelta(t, 40, New(k).Seconds, 1e-9, "the run takes as long as the last run")
	k.Last = RunDuration{Requests: 2046, Seconds: 40}
	require.InDelta(t, 20, New(k).Seconds, 1e-9, "half the requests take half the time")
	k.Last = RunDuration{Requests: 23, Seconds: 5}
	require.InDelta(t, 5+10.12*1000/1023, New(k).Seconds, 1e-9, "additional requests take the time that the rate limit requires")
	k.Last = RunDuration{Requests: 1023, Seconds: 1}
	require.InDelta(t, 10.12, New(k).Seconds, 1e-9, "the run is never faster than the rate limit allows")
}

// TestForecastAfterTheFirstRun: the second run sends no probes, skips parents, and reads only the last time windows.
func TestForecastAfterTheFirstRun(t *testing.T) {
	t.Parallel()
	k := knowledge()
	k.Streams = append(k.Streams, schemas.Stream{Name: "b.months", Class: schemas.ClassList, Months: schemas.Months{Recent: 1}})
	k.Expected = func(_ schemas.Stream, parents int64) int64 { return parents / 10 }
	k.History["a.list"] = History{Records: 1000, Pages: 10, Requests: 15, Probes: 4}
	k.History["b.list"] = History{Records: 5, Pages: 1, Requests: 3, Probes: 3, Reread: true}
	k.History["a.one"] = History{Records: 1000, Pages: 10, Requests: 1500, Parents: 1000}
	k.History["b.months"] = History{Records: 90, Pages: 24, Requests: 24, Windows: 24}
	var requests []int64
	for _, s := range New(k).Streams {
		requests = append(requests, s.Requests)
	}
	require.Equal(t, []int64{11, 150, 2, 8, 1, 2}, requests)
}

// TestForecastOfUnknownLists: if it is not known how long a list is, its figures are only lower limits, and the
// forecast sets AtLeast. It also sets AtLeast for child streams that depend on that list.
func TestForecastOfUnknownLists(t *testing.T) {
	t.Parallel()
	k := knowledge()
	k.History = nil
	k.Sizes = map[string]Size{"a.list": {Records: 101, Pages: 2, Probes: 4, AtLeast: true}, "b.new": {Records: 30, Pages: 1}}
	f := New(k)
	by := map[string]Stream{}
	for _, s := range f.Streams {
		by[s.Stream] = s
	}
	require.True(t, f.AtLeast)
	require.True(t, by["a.list"].AtLeast)
	require.True(t, by["a.one"].AtLeast)
	require.Equal(t, int64(101), by["a.one"].Requests)
	require.Equal(t, Derived, by["a.one"].Basis)
	require.False(t, by["b.new"].AtLeast)
	require.Equal(t, Guessed, by["b.list"].Basis)
	require.True(t, by["b.list"].AtLeast)
	require.Equal(t, 1, f.Guessed)

	k.Streams = k.Streams[1:2] // the parent is not a stream of the run
	require.Equal(t, int64(2+101), New(k).Requests, "the pages of the parent, and a request for each of its records")
	k.Sizes = nil
	require.Equal(t, 1, New(k).Guessed)
}

func TestCompare(t *testing.T) {
	f := &Forecast{Requests: 100, Seconds: 10}
	require.Equal(t, &Outlook{Requests: 100, Seconds: 10, RequestsError: 0.1, SecondsError: -0.2}, f.Compare(110, 8*time.Second))
}
