package pipeline

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

func (r *rig) stopAfter(d time.Duration, cause error) (Report, time.Duration) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var at time.Time
	timer := time.AfterFunc(d, func() { at = time.Now(); cancel(cause) })
	defer timer.Stop()
	rep, err := r.run(ctx)
	require.NoError(r.t, err)
	return rep, time.Since(at)
}

func TestStopWhileReading(t *testing.T) {
	for signal, code := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130} {
		synctest.Test(t, func(t *testing.T) {
			l := &sourcetest.List{Records: sourcetest.Records(0, 50), Size: 10, Total: true}
			l.Wait = func(ctx context.Context, page int) {
				select {
				case <-ctx.Done():
				case <-time.After(time.Second):
				}
			}
			r := newRig(t, map[string]*sourcetest.List{"crm_leads": l, "crm_deals": l}, sourcetest.Stream("crm_leads"), sourcetest.Stream("crm_deals"))
			r.config.Workers = 1
			rep, late := r.stopAfter(3500*time.Millisecond, Stop(signal))
			require.Equal(t, StatusStopped, rep.Status)
			require.Equal(t, code, rep.ExitCode())
			require.Less(t, late, time.Second)
			for _, s := range rep.Streams {
				require.Equal(t, StatusStopped, s.Status, "stream %s", s.Stream)
			}
			require.Equal(t, 30, len(r.alive("crm_leads"))+len(r.alive("crm_deals")), "the pages committed before the stop")
			runs := r.memory.Rows(load.Runs.Name)
			require.Equal(t, "stopped", runs[0]["status"])

			l.Wait = nil
			r.restart(nil)
			r.must(StatusComplete)
			require.Equal(t, sourcetest.Records(0, 50), r.alive("crm_leads"))
			require.Equal(t, sourcetest.Records(0, 50), r.alive("crm_deals"))
		})
	}
}

// After a stop, a short commit is finished, and a long commit is given up. In both cases the run ends within ten
// seconds.
func TestStopWhileCommitting(t *testing.T) {
	for commit, rows := range map[time.Duration]int{3 * time.Second: 10, time.Minute: 0} {
		t.Run(commit.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, map[string]*sourcetest.List{"crm_leads": {Records: sourcetest.Records(0, 50), Size: 10, Total: true}}, sourcetest.Stream("crm_leads"))
				slow := &slowDestination{Destination: r.memory, commit: commit}
				r.config.Destinations = []Destination{{"warehouse", slow}}
				rep, late := r.stopAfter(time.Second, Stop(syscall.SIGTERM))
				require.Equal(t, 143, rep.ExitCode())
				require.Equal(t, StatusStopped, rep.Streams[0].Status, "%v", rep.Streams[0].Err)
				require.Less(t, late, 10*time.Second)
				require.Len(t, r.alive("crm_leads"), rows)
				require.EqualValues(t, rows, rep.Streams[0].Counts.Written)
			})
		})
	}
}

func TestStopBeforeTheStart(t *testing.T) {
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": {Records: sourcetest.Records(0, 50), Size: 10}}, sourcetest.Stream("crm_leads"))
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(Stop(syscall.SIGINT))
	rep, _ := r.run(ctx)
	require.Equal(t, 130, rep.ExitCode())
	require.Empty(t, r.source.Asked)
}

type slowDestination struct {
	load.Destination
	commit time.Duration
}

func (d *slowDestination) Begin(ctx context.Context, k state.Key, from state.Cursor, p load.Pass) (load.Tx, error) {
	tx, err := d.Destination.Begin(ctx, k, from, p)
	if k.Stream == runStream {
		return tx, err
	}
	return &slowTx{Tx: tx, d: d.commit}, err
}

type slowTx struct {
	load.Tx
	d time.Duration
}

func (x *slowTx) Commit(ctx context.Context, next state.Cursor) error {
	select {
	case <-time.After(x.d):
		return x.Tx.Commit(ctx, next)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Records in memory never exceed the budget, for any number of streams and size of pages. No stream waits forever.
func TestBytesInFlightStayInTheBudget(t *testing.T) {
	lists, unkeyed := map[string]*sourcetest.List{}, map[string]bool{}
	var streams []schemas.Stream
	for i := range 12 {
		name := fmt.Sprintf("crm_list%d", i)
		lists[name] = &sourcetest.List{Records: sourcetest.Records(0, 200), Size: 5 + 7*i, Total: true}
		s := sourcetest.Stream(name)
		if unkeyed[name] = i%4 == 3; unkeyed[name] {
			s = sourcetest.Keyless(name)
		}
		streams = append(streams, s)
	}
	r := newRig(t, lists, streams...)
	r.config.ByteBudget = 3000
	r.config.limits = limits{batchRows: 40, batchBytes: 1 << 20, groupRows: 1 << 20, groupBytes: 1 << 20, groupAge: time.Hour}

	const row = 8 + 4 + 2 // minimum bytes of a number and a name in a batch; as JSON they take more
	var mu sync.Mutex
	var peak atomic.Int64
	fetched, committed := map[string]int64{}, map[string]int64{}
	r.config.Progress = func(e Event) {
		mu.Lock()
		defer mu.Unlock()
		switch e.Kind {
		case EventPage:
			fetched[e.Stream] += e.Records
		case EventCommit:
			committed[e.Stream] = e.Counts.Fetched
		}
		var sum int64
		for name, n := range fetched {
			if !unkeyed[name] { // streams without a key continue without the budget once it is used up
				sum += row * (n - committed[name])
			}
		}
		peak.Store(max(peak.Load(), sum))
	}
	r.must(StatusComplete)
	require.LessOrEqual(t, peak.Load(), int64(3000), "bytes in flight")
	require.Positive(t, peak.Load())
	for name := range lists {
		require.Len(t, r.alive(name), 200, name)
	}
}
