package sizing

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func near(t require.TestingT, want, got, by float64, msg string) {
	require.InEpsilon(t, want, got, by, msg)
}

func plain() (Workspaces, Fleet) {
	return Workspaces{Count: 1, Parts: []UnitWork{{Requests: 1000, Records: 1000}}, Rate: 1e6, Latency: 200 * time.Millisecond},
		Fleet{Workers: 1, Cores: 4, Slots: 8, Database: 8, Connections: 100}
}

func TestEachLimit(t *testing.T) {
	costs := Costs{Request: 1e-3, Write: 1e-6}
	for _, c := range []struct {
		name  string
		set   func(*Workspaces, *Fleet, *Costs)
		took  float64
		bound Limit
	}{
		{"one list, one answer after another", func(*Workspaces, *Fleet, *Costs) {}, 200, Answers},
		{"lists side by side", func(w *Workspaces, _ *Fleet, _ *Costs) { w.Parts[0].Lists = 10 }, 20, Answers},
		{"the key", func(w *Workspaces, _ *Fleet, _ *Costs) { w.Rate, w.Parts[0].Lists = 2, 10 }, 500, Keys},
		{"two units with one key share its rate", func(w *Workspaces, _ *Fleet, _ *Costs) {
			w.Rate, w.Parts = 2, append(w.Parts, w.Parts[0])
		}, 1000, Keys},
		{"the most requests that workers can share", func(w *Workspaces, _ *Fleet, _ *Costs) { w.Parts[0].Lists = 1000 }, 1000.0 / 2048, Keys},
		{"units with different keys share no rate", func(w *Workspaces, _ *Fleet, _ *Costs) { w.Rate, w.Count = 2, 2 }, 500, Keys},
		{"the worker's cores", func(w *Workspaces, _ *Fleet, c *Costs) { w.Parts[0].Lists, c.Request = 1000, 1 }, 250, Workers},
		{"the database's cores", func(w *Workspaces, f *Fleet, c *Costs) {
			w.Parts[0].Lists, f.Database, c.Write = 1000, 2, 1
		}, 500, Database},
		{"slots", func(w *Workspaces, f *Fleet, _ *Costs) { w.Count, f.Slots = 4, 2 }, 400, Slots},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, f := plain()
			costs := costs
			c.set(&w, &f, &costs)
			o, err := Run(w, f, costs)
			require.NoError(t, err)
			near(t, c.took, o.Took.Seconds(), 0.02, "seconds")
			if c.bound != Slots {
				require.Equal(t, c.bound, o.Bound)
			}
			require.Positive(t, o.Waits[c.bound])
		})
	}
}

func TestFleetScales(t *testing.T) {
	w, f := plain()
	w.Count, w.Rate = 400, 10
	one, err := Run(w, f, Measured())
	require.NoError(t, err)
	f.Workers = 4
	four, err := Run(w, f, Measured())
	require.NoError(t, err)
	near(t, 4, one.Took.Seconds()/four.Took.Seconds(), 0.05, "with separate keys, four workers take a quarter of the time")
}

func TestLargest(t *testing.T) {
	w, f := plain()
	f.Slots, w.Rate = 10, 10 // a workspace takes 100 s at its rate limit, and 200 s with one answer after another
	n, bound, err := Largest(w, f, Costs{}, time.Hour, 0, 1e6)
	require.NoError(t, err)
	near(t, 180, float64(n), 0.05, "ten workspaces at a time, eighteen times in an hour")
	require.Equal(t, Slots, bound)
	f.Workers = 20
	n, bound, err = Largest(w, f, Measured(), time.Hour, 0, 1e6)
	require.NoError(t, err)
	require.Equal(t, Sessions, bound, "the server allows 100 connections")
	require.Zero(t, n)
}

// TestLargestFits: the fleet reads the forecast number of workspaces in time, and not many more. More workers never read
// fewer workspaces.
func TestLargestFits(t *testing.T) {
	for _, c := range []struct {
		name           string
		rate, database float64
		bound          Limit // with 64 workers
	}{
		{"the keys of large workspaces", 10, 16, Keys},
		{"slots, then the database", 112, 1, Database},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := Workspaces{Skew: 1, Rate: c.rate, Latency: 200 * time.Millisecond}
			for range 12 {
				w.Parts = append(w.Parts, UnitWork{Requests: 120, Records: 2000, Streams: 12, Lists: 3})
			}
			const within = time.Hour
			fewer, bound := 0, Limit("")
			for workers := 1; workers <= 64; workers *= 4 {
				f := Fleet{Workers: workers, Cores: 2, Slots: 16, Database: c.database}
				n, then, err := Largest(w, f, Measured(), within, fewer, 1e6)
				require.NoError(t, err)
				require.GreaterOrEqual(t, n, fewer, "%d workers", workers)
				t.Logf("%d workers: %d workspaces, then %s", workers, n, then)
				w.Count = n
				o, err := Run(w, f, Measured())
				require.NoError(t, err)
				require.LessOrEqual(t, o.Took.Hours(), 1.005*within.Hours(), "%d workers, %d workspaces", workers, n)
				w.Count = n + n/20
				o, err = Run(w, f, Measured())
				require.NoError(t, err)
				require.Greater(t, o.Took, within, "%d workers, %d workspaces", workers, w.Count)
				fewer, bound = n, then
			}
			require.Equal(t, c.bound, bound)
		})
	}
}

func TestTenThousandWorkspaces(t *testing.T) {
	w := Workspaces{Count: 10_000, Skew: 1, Rate: 100, Latency: 200 * time.Millisecond}
	for range 12 {
		w.Parts = append(w.Parts, UnitWork{Requests: 120, Records: 1e9 / 10_000 / 12, Streams: 12, Lists: 3})
	}
	o, err := Run(w, Fleet{Workers: 16, Cores: 4, Slots: 16, Database: 8, Connections: 500}, Measured())
	require.NoError(t, err)
	near(t, 1e9, o.Records, 1e-6, "every record is read")
	require.Equal(t, 120_000, o.Units)
	require.Equal(t, Database, o.Bound)
}

// TestStateAndWAL: a slow key needs a state transaction for each request. A fast key needs one for each batch of
// requests.
func TestStateAndWAL(t *testing.T) {
	w, f := plain()
	costs := Costs{Transactions: 6, Polls: 3, LeaseEvery: 0.1, RowWAL: 700, StreamWAL: 5000, StateWAL: 400}
	w.Parts[0].Lists, w.Parts[0].Streams, w.Count, f.Workers = 1000, 4, 2, 2
	w.Rate = 5 // a workspace takes 200 s
	slow, err := Run(w, f, costs)
	require.NoError(t, err)
	near(t, 2*5+2*6/200.0+2*3, slow.StatePer, 0.01, "one transaction for each request, six for each unit, and the polls")
	near(t, 2*1000*700+2*4*5000+slow.StatePer*200*400, slow.WAL, 0.01, "rows, new tables and transactions")
	w.Rate = 100 // a workspace takes 10 s
	fast, err := Run(w, f, costs)
	require.NoError(t, err)
	near(t, 2*10+2*6/10.0+2*3, fast.StatePer, 0.01, "ten batches a second for each key")
}

func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := Workspaces{Count: rapid.IntRange(1, 60).Draw(t, "workspaces"), Skew: rapid.Float64Range(0, 2).Draw(t, "skew"),
			Rate: rapid.Float64Range(0.5, 500).Draw(t, "rate"), Latency: time.Duration(rapid.IntRange(1, 2000).Draw(t, "ms")) * time.Millisecond}
		var requests, records float64
		for range rapid.IntRange(1, 5).Draw(t, "parts") {
			p := UnitWork{Requests: rapid.Float64Range(0, 3000).Draw(t, "requests"), Records: rapid.Float64Range(0, 1e6).Draw(t, "records"), Streams: rapid.Float64Range(0, 40).Draw(t, "streams"), Lists: rapid.Float64Range(0, 8).Draw(t, "lists")}
			w.Parts = append(w.Parts, p)
			requests += p.Requests * float64(w.Count)
			records += p.Records * float64(w.Count)
		}
		f := Fleet{Workers: rapid.IntRange(1, 9).Draw(t, "workers"), Cores: rapid.Float64Range(0.5, 16).Draw(t, "cores"), Slots: rapid.IntRange(1, 40).Draw(t, "slots"), Database: rapid.Float64Range(0.5, 32).Draw(t, "database")}
		o, err := Run(w, f, Measured())
		require.NoError(t, err)
		require.Equal(t, w.Count*len(w.Parts), o.Units)
		require.GreaterOrEqual(t, o.Requests+1e-6, requests*(1-1e-9))
		require.InDelta(t, records, o.Records, 1+records*1e-9)
		took := o.Took.Seconds() * 1.0001
		require.LessOrEqual(t, o.WorkerUse, 1.0001)
		require.LessOrEqual(t, o.DatabaseUse, 1.0001)
		require.GreaterOrEqual(t, o.WAL, o.Records*Measured().RowWAL)
		require.GreaterOrEqual(t, took*w.Rate*float64(w.Count), o.Requests*0.999, "no key exceeds its rate limit")
		sum := 0.0
		for _, share := range o.Waits {
			sum += share
		}
		require.InDelta(t, 1, sum, 1e-6)
		again, err := Run(w, f, Measured())
		require.NoError(t, err)
		require.Equal(t, o, again)
		f.Database, f.Cores, w.Latency = 2*f.Database, 2*f.Cores, w.Latency/2
		better, err := Run(w, f, Measured())
		require.NoError(t, err)
		require.LessOrEqual(t, better.Took.Seconds(), o.Took.Seconds()*1.05, "with twice the cores and half the latency, a run does not take longer")
	})
}

func TestInvalidSizes(t *testing.T) {
	w, f := plain()
	for _, set := range []func(){func() { f.Workers = 0 }, func() { f.Cores = 0 }, func() { w.Rate = 0 }, func() { w.Parts = nil }} {
		w, f = plain()
		set()
		_, err := Run(w, f, Measured())
		require.ErrorIs(t, err, ErrSize)
	}
}
