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
	require.Equal(t, Guessed, by["b.new"].Basis)
	require.Equal(t, int64(12+1000+2+8+1), f.Requests)
	require.Equal(t, 2, f.Guessed)
	require.InDelta(t, 10.12, f.Seconds, 1e-9, "lanes run in parallel")
	require.InDelta(t, 10.12, by["a.one"].Ends, 1e-9)

	k.Deadline = time.Second
	f = New(k)
	require.Equal(t, 2, f.Skipped)
	require.False(t, f.Streams[0].Skipped)
	require.True(t, f.Streams[1].Skipped)

	k.Deadline = 0
	k.Last = RunDuration{Requests: 1023, Seconds: 40}
	require.InDelta(t, 40, New(k).Seconds, 1e-9, "as slow as the last run")
	k.Last = RunDuration{Requests: 2046, Seconds: 40}
	require.InDelta(t, 20, New(k).Seconds, 1e-9, "half the requests take half the time")
	k.Last = RunDuration{Requests: 23, Seconds: 5}
	require.InDelta(t, 5+10.12*1000/1023, New(k).Seconds, 1e-9, "further requests take the time of the rate limit")
	k.Last = RunDuration{Requests: 1023, Seconds: 1}
	require.InDelta(t, 10.12, New(k).Seconds, 1e-9, "never faster than the rate limit")
}

func TestCompare(t *testing.T) {
	f := &Forecast{Requests: 100, Seconds: 10}
	require.Equal(t, &Outlook{Requests: 100, Seconds: 10, RequestsError: 0.1, SecondsError: -0.2}, f.Compare(110, 8*time.Second))
}
