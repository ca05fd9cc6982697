package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// flaky is a destination that can be made to fail: before each operation and after each commit it calls at(). If at()
// returns an error after a commit, the rows are committed, but the caller of the commit gets the error.
type flaky struct {
	load.Destination
	at func(op string) error
}

func (d *flaky) op(k state.Key, name string) error {
	if k.Stream == runStream {
		name = "run " + name
	}
	return d.at(name)
}

func (d *flaky) Cursor(ctx context.Context, k state.Key) (state.Cursor, error) {
	if err := d.op(k, "cursor"); err != nil {
		return "", err
	}
	return d.Destination.Cursor(ctx, k)
}

func (d *flaky) Tables(ctx context.Context, name string) ([]schemas.Table, error) {
	if err := d.at("tables"); err != nil {
		return nil, err
	}
	return d.Destination.Tables(ctx, name)
}

func (d *flaky) Begin(ctx context.Context, k state.Key, from state.Cursor, p load.Pass) (load.Tx, error) {
	if err := d.op(k, "begin"); err != nil {
		return nil, err
	}
	tx, err := d.Destination.Begin(ctx, k, from, p)
	return &flakyTx{Tx: tx, d: d, key: k}, err
}

type flakyTx struct {
	load.Tx
	d   *flaky
	key state.Key
}

func (x *flakyTx) Write(ctx context.Context, t schemas.Table, b arrow.RecordBatch) error {
	if err := x.d.op(x.key, "write"); err != nil {
		return err
	}
	return x.Tx.Write(ctx, t, b)
}

func (x *flakyTx) Apply(ctx context.Context, s load.Sweep) (load.Outcome, error) {
	if err := x.d.op(x.key, "apply"); err != nil {
		return load.Outcome{}, err
	}
	return x.Tx.Apply(ctx, s)
}

func (x *flakyTx) Commit(ctx context.Context, next state.Cursor) error {
	if err := x.d.op(x.key, "commit"); err != nil {
		return err
	}
	return errors.Join(x.Tx.Commit(ctx, next), x.d.op(x.key, "committed"))
}

type trio struct {
	*rig
	memories []*loadtest.Memory
	truth    []sourcetest.Record
}

func newTrio(t *testing.T) *trio {
	x := &trio{rig: newRig(t, map[string]*sourcetest.List{"crm_leads": {Records: sourcetest.Records(0, 25), Size: 10, Total: true}}, sourcetest.Stream("crm_leads"))}
	for range 3 {
		x.memories = append(x.memories, loadtest.NewMemory(nil))
	}
	x.into(nil, 0)
	x.must(StatusComplete)
	x.truth = append(sourcetest.Records(2, 20), sourcetest.Records(30, 42)...)
	x.source.Lists["crm_leads"].Records = x.truth
	return x
}

func (x *trio) into(at func(op string) error, which int) {
	x.config.Destinations = nil
	for i, m := range x.memories {
		x.memories[i] = m.Reopen(nil)
		d := Destination{Name: fmt.Sprint("d", i), Destination: x.memories[i]}
		if at != nil && i == which {
			d.Destination = &flaky{d.Destination, at}
		}
		x.config.Destinations = append(x.config.Destinations, d)
	}
}

func (x *trio) equal(which int) {
	x.t.Helper()
	x.memory = x.memories[which]
	require.Equal(x.t, x.truth, x.alive("crm_leads"), "destination %d", which)
}

func (x *trio) steps() []string {
	var ops []string
	var mu sync.Mutex
	x.into(func(op string) error {
		mu.Lock()
		defer mu.Unlock()
		ops = append(ops, op)
		return nil
	}, 1)
	x.must(StatusComplete)
	return ops
}

// A destination fails once. It catches up in the same run if possible, else in the next run.
func TestOneOfThreeFailsOnce(t *testing.T) {
	broken := errors.New("connection lost")
	steps := newTrio(t).steps()
	t.Logf("%d steps: %v", len(steps), steps)
	for which := range 3 {
		for n, at := range steps {
			x := newTrio(t)
			left := n + 1
			x.into(func(string) error {
				if left--; left == 0 {
					return broken
				}
				return nil
			}, which)
			name := fmt.Sprintf("destination %d at step %d (%s)", which, n, at)
			rep, err := x.run(context.Background())
			require.Contains(t, []int{0, 75}, rep.ExitCode(), "%s: %v", name, err)
			for i, s := range rep.Streams {
				c := s.Counts
				require.Equal(t, c.Fetched, c.Written+c.Unchanged+c.Deduplicated+c.Rejected, name)
				if i != which {
					require.Equal(t, StatusComplete, s.Status, name)
					require.Equal(t, Counts{Fetched: 60, Written: 12, Unchanged: 48, Deleted: 7}, c, name)
					x.equal(i)
				}
			}
			if !strings.HasPrefix(at, "run ") && at != "cursor" {
				require.Equal(t, StatusComplete, rep.Streams[which].Status, "%s: %v", name, rep.Streams[which].Err)
				x.equal(which)
			}
			x.into(nil, 0)
			x.must(StatusComplete)
			for i := range 3 {
				x.equal(i)
			}
		}
	}
}

// A destination keeps failing. At most one more reading of the source is made for it.
func TestOneOfThreeFailsPermanently(t *testing.T) {
	broken := errors.New("disk full")
	steps := newTrio(t).steps()
	for which := range 3 {
		for n, at := range steps {
			x := newTrio(t)
			left := n + 1
			x.into(func(string) error {
				if left--; left <= 0 {
					return broken
				}
				return nil
			}, which)
			name := fmt.Sprintf("destination %d from step %d (%s) on", which, n, at)
			before := x.source.Read
			rep, _ := x.run(context.Background())
			require.Equal(t, StatusPartial, rep.Status, name)
			require.Equal(t, 75, rep.ExitCode(), name)
			require.LessOrEqual(t, x.source.Read-before, 12, "%s: pages", name)
			for i, s := range rep.Streams {
				switch {
				case i != which:
					require.Equal(t, StatusComplete, s.Status, name)
					x.equal(i)
				case s.Status != StatusComplete:
					require.Equal(t, StatusLagging, s.Status, name)
					require.ErrorIs(t, s.Err, broken, name)
					require.ErrorContains(t, s.Err, fmt.Sprint("d", which), name)
				}
			}
			x.into(nil, 0)
			x.must(StatusComplete)
			for i := range 3 {
				x.equal(i)
			}
		}
	}
}

func TestAllOfThreeFail(t *testing.T) {
	x := newTrio(t)
	for i := range x.config.Destinations {
		writes := 0
		x.config.Destinations[i].Destination = &flaky{x.memories[i], func(op string) error {
			if op != "write" {
				return nil
			}
			if writes++; writes > 1 {
				return errors.New("disk full")
			}
			return nil
		}}
	}
	rep, err := x.run(context.Background())
	require.NoError(t, err)
	require.Equal(t, 1, rep.ExitCode(), "no destination has loaded more than another")
	for _, s := range rep.Streams {
		require.Equal(t, StatusFailed, s.Status)
	}
}

// The slow destination gets a pass of its own, which has no time limit.
func TestSlowDestinationDoesNotDelayOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newTrio(t)
		x.into(nil, 0)
		x.config.Destinations[0].Destination = &slowDestination{x.memories[0], time.Hour}
		var done time.Duration
		began := time.Now()
		x.config.Progress = func(e Event) {
			if e.Kind == EventCommit && e.Counts.Deleted == 7 {
				done = cmp.Or(done, time.Since(began))
			}
		}
		rep := x.must(StatusComplete)
		require.Less(t, done, 10*time.Minute, "the time until the first destination was done")
		require.Equal(t, 3, rep.Streams[0].Passes, "passes, including the pass that the destination dropped out of")
		require.Equal(t, 2, rep.Streams[1].Passes)
		for i := range 3 {
			x.equal(i)
		}
	})
}

func TestStopWithSeveralDestinations(t *testing.T) {
	for after := time.Duration(0); after < 5*time.Second; after += 500 * time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			x := newTrio(t)
			x.into(nil, 0)
			for i, d := range []time.Duration{100 * time.Millisecond, time.Second, time.Minute} {
				x.config.Destinations[i].Destination = &slowDestination{x.memories[i], d}
			}
			rep, late := x.stopAfter(after+250*time.Millisecond, Stop(syscall.SIGTERM))
			require.Equal(t, 143, rep.ExitCode())
			require.Less(t, late, 10*time.Second)
			for _, s := range rep.Streams {
				require.Equal(t, StatusStopped, s.Status, "%v", s.Err)
			}
			x.into(nil, 0)
			x.must(StatusComplete)
			for i := range 3 {
				x.equal(i)
			}
		})
	}
}

func TestLaggingDestinationContinuesItsPass(t *testing.T) {
	x := newTrio(t)
	x.into(nil, 0)
	commits := 0
	x.config.Destinations[2].Destination = &flaky{x.memories[2], func(op string) error {
		if op != "commit" {
			return nil
		}
		if commits++; commits < 3 {
			return nil
		}
		return errors.New("disk full")
	}}
	rep, err := x.run(context.Background())
	require.NoError(t, err)
	require.Equal(t, []Status{StatusComplete, StatusComplete, StatusLagging}, []Status{rep.Streams[0].Status, rep.Streams[1].Status, rep.Streams[2].Status})
	require.EqualValues(t, 20, rep.Streams[2].Counts.Fetched, "the records that the destination has committed")

	x.truth = append(sourcetest.Records(2, 20), sourcetest.Records(31, 42)...)
	x.source.Lists["crm_leads"].Records = x.truth
	x.into(nil, 0)
	rep = x.must(StatusComplete)
	require.Equal(t, 2, rep.Streams[0].Passes)
	require.Equal(t, 3, rep.Streams[2].Passes, "the passes include the rest of the old pass")
	for i := range 3 {
		x.equal(i)
	}
}

// The destinations `slow` and `quick` are at the same page of different passes: `slow` continues the first run's pass,
// which `quick` has finished. They must not share this pass. A pass adds at most one version of a record, so `quick`
// would replace the version from the first run with the changed version.
func TestPassesOfTwoRunsStayApart(t *testing.T) {
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": {Records: sourcetest.Records(0, 20), Size: 10, Total: true}}, sourcetest.Stream("crm_leads"))
	r.mode(schemas.History)
	slow, quick := loadtest.NewMemory(nil), loadtest.NewMemory(nil)
	commits := 0
	r.config.Destinations = []Destination{{"slow", &flaky{slow, func(op string) error {
		if op == "commit" {
			if commits++; commits > 1 {
				return errors.New("down")
			}
		}
		return nil
	}}}, {"quick", quick}}
	_, err := r.run(t.Context())
	require.NoError(t, err)

	l := r.source.Lists["crm_leads"]
	l.Fail = func(page int) error {
		if page == 2 {
			return errors.New("down")
		}
		return nil
	}
	r.config.Destinations = r.config.Destinations[1:]
	_, err = r.run(t.Context())
	require.NoError(t, err)

	l.Fail, l.Records = nil, append(sourcetest.Records(0, 15), append([]sourcetest.Record{{ID: 15, Name: "changed"}}, sourcetest.Records(16, 20)...)...)
	slow, quick = slow.Reopen(nil), quick.Reopen(nil)
	r.config.Destinations = []Destination{{"slow", slow}, {"quick", quick}}
	_, err = r.run(t.Context())
	require.NoError(t, err)
	versions := 0
	for _, row := range quick.Rows("crm_leads") {
		if row["id"] == "15" {
			versions++
		}
	}
	require.Equal(t, 2, versions)
}
