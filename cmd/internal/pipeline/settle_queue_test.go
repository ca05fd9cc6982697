package pipeline

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// newLogs returns a rig with this number of streams, each with five records.
func newLogs(t *testing.T, n int) *rig {
	lists, streams := map[string]*sourcetest.List{}, []schemas.Stream{}
	for i := range n {
		name := fmt.Sprintf("users_log%02d", i)
		lists[name] = &sourcetest.List{Records: sourcetest.Records(0, 5), Size: 10, Total: true}
		streams = append(streams, sourcetest.Stream(name))
	}
	return newRig(t, lists, streams...)
}

// While the commit of a stream waits in the queue, the stream gives its worker slot back. Before the stream takes a
// slot again, it also gives its bytes of the budget back. Otherwise two streams could wait for each other: one for a
// slot, and the other for these bytes.
// Invariants 6, 15
func TestSettledStreamsReturnTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLogs(t, 6)
		r.config.limits, r.config.Workers, r.config.ByteBudget = limits{}, 1, 1
		r.must(StatusComplete)
		r.restart(nil)
		rep := r.must(StatusComplete)
		require.Len(t, rep.Streams, 6)
		for _, s := range rep.Streams {
			require.EqualValues(t, 5, s.Counts.Unchanged, s.Stream)
		}
	})
}

// If a stream waits for bytes that a settlement holds, the settlement does not wait for other settlements.
func TestSettlementDoesNotHoldBytesThatAStreamWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLogs(t, 6)
		r.config.limits, r.config.Workers, r.config.Budget = limits{}, 2, NewBudget(1)
		r.must(StatusComplete)
		begun := time.Now()
		r.must(StatusComplete)
		require.Less(t, time.Since(begun), settleAge)
		require.Empty(t, r.config.Budget.queues)
		require.False(t, r.config.Budget.short())
	})
}

// slow is a destination that needs a second to settle streams. It counts the streams of each settlement, and how many
// settlements run at once.
type slow struct {
	*loadtest.Memory
	running, most atomic.Int32
	mu            sync.Mutex
	settled       []int
}

// Settle implements [load.Surveyor].
func (l *slow) Settle(ctx context.Context, all []load.Settlement) []error {
	if all[0].Key.Stream == runStream {
		return l.Memory.Settle(ctx, all)
	}
	l.most.Store(max(l.most.Load(), l.running.Add(1)))
	defer l.running.Add(-1)
	time.Sleep(time.Second)
	l.mu.Lock()
	l.settled = append(l.settled, len(all))
	l.mu.Unlock()
	return l.Memory.Settle(ctx, all)
}

// While streams wait for bytes, one commit follows another, and each commits the settlements that gathered meanwhile.
func TestSettlementsGatherWhileOneIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newLogs(t, 12)
		r.config.limits, r.config.Workers, r.config.Budget = limits{}, 4, NewBudget(400)
		r.must(StatusComplete)
		to := &slow{Memory: r.memory}
		r.config.Destinations = []Destination{{Name: "warehouse", Destination: to}}
		r.must(StatusComplete)
		t.Log(to.settled)
		require.EqualValues(t, 1, to.most.Load())
		require.Less(t, len(to.settled), 6)
	})
}

// unanswering is a destination that does not answer when streams are settled.
type unanswering struct{ *loadtest.Memory }

// Settle implements [load.Surveyor].
func (u unanswering) Settle(ctx context.Context, all []load.Settlement) []error {
	if all[0].Key.Stream == runStream {
		return u.Memory.Settle(ctx, all)
	}
	<-ctx.Done()
	errs := make([]error, len(all))
	for i := range errs {
		errs[i] = ctx.Err()
	}
	return errs
}

// One of two destinations does not answer. Some time after the commit to the other destination has ended, the run gives
// up the commit that waits. The stream then makes a pass only for the destination that did not answer, and commits the
// rows of this pass in the usual way. Invariant 15
func TestSettlementWaitsWithPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &sourcetest.List{Records: sourcetest.Records(0, 5), Size: 10, Total: true}
		r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
		r.config.limits = limits{}
		other := loadtest.NewMemory(nil)
		r.config.Destinations = []Destination{{Name: "warehouse", Destination: r.memory}, {Name: "lake", Destination: other}}
		r.must(StatusComplete)
		r.config.Destinations[1].Destination = unanswering{other}
		rep := r.must(StatusComplete)
		for _, s := range rep.Streams {
			require.EqualValues(t, 5, s.Counts.Unchanged, s.Destination)
		}
		require.Equal(t, 3, r.source.Passes["crm_leads"])
	})
}

// locked is a destination that another process has locked. It counts how often a caller has waited for that process.
type locked struct {
	*loadtest.Memory
	waits *int
}

func (l locked) wait() error {
	*l.waits++
	return fmt.Errorf("file of the lake: %w", state.ErrLocked)
}

// Survey implements [load.Surveyor].
func (l locked) Survey(context.Context, []load.Surveyed, []load.SurveyedOwn) error { return l.wait() }

// Cursor implements [load.Destination].
func (l locked) Cursor(context.Context, state.Key) (state.Cursor, error) { return "", l.wait() }

// A run waits only once for a destination that another process has locked. Other destinations are loaded. Invariant 15
func TestSurveyOfALockedDestination(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 5), Size: 10, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	waits := 0
	lake := Destination{Name: "lake", Destination: locked{loadtest.NewMemory(nil), &waits}}
	r.config.Destinations = []Destination{lake, {Name: "warehouse", Destination: r.memory}}
	rep, err := r.run(t.Context())
	require.NoError(t, err)
	require.Equal(t, StatusPartial, rep.Status)
	require.Equal(t, 1, waits)
	require.Len(t, r.alive("crm_leads"), 5)
	r.config.Destinations = r.config.Destinations[:1]
	_, err = r.run(t.Context())
	require.ErrorIs(t, err, state.ErrLocked)
	require.Equal(t, 2, waits)
}

// moveCursor changes the stored position of a stream, as another process would.
func (r *rig) moveCursor(ctx context.Context, stream string, change func(*cursor.Position)) {
	key := state.Key{Pipeline: "nightly", Stream: stream}
	at, err := r.memory.Cursor(ctx, key)
	require.NoError(r.t, err)
	pos, err := cursor.Decode(at)
	require.NoError(r.t, err)
	change(&pos)
	tx, err := r.memory.Begin(ctx, key, at, load.Pass{Run: "zzzzzzzzzzzz", Whole: true})
	require.NoError(r.t, err)
	require.NoError(r.t, tx.Commit(ctx, pos.Encode()))
}

// If another process moves the cursor after the survey, the stream begins again from the new cursor. But if that
// process has made a pass, the stream fails: rows of that pass would count as rows of this run's pass. Invariant 13
func TestCursorMovesAfterTheSurvey(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*cursor.Position)
		status Status
		passes int
	}{
		"an event":                  {func(p *cursor.Position) { p.TouchedBy = "webhook" }, StatusComplete, 2},
		"a pass of another process": {func(p *cursor.Position) { p.Pass = "zzzzzzzzzzzz" }, StatusFailed, 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := &sourcetest.List{Records: sourcetest.Records(0, 5), Size: 10, Total: true}
			r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
			r.config.limits = limits{}
			r.must(StatusComplete)
			passes := 0
			l.Wait = func(ctx context.Context, _ int) {
				if passes++; passes == 1 {
					r.moveCursor(ctx, "crm_leads", test.change)
				}
			}
			rep, err := r.run(t.Context())
			require.NoError(t, err)
			require.Equal(t, test.passes, passes)
			require.Equal(t, test.status, rep.Streams[0].Status)
			if test.status == StatusFailed {
				require.ErrorIs(t, rep.Streams[0].Err, state.ErrMoved)
				return
			}
			require.EqualValues(t, 5, rep.Streams[0].Counts.Unchanged)
		})
	}
}

// overtaken is a destination in which another process makes a pass over crm_leads just before the stream is settled.
type overtaken struct {
	*loadtest.Memory
	r *rig
}

// Settle implements [load.Surveyor].
func (o overtaken) Settle(ctx context.Context, all []load.Settlement) []error {
	for _, s := range all {
		if s.Key.Stream == "crm_leads" {
			o.r.moveCursor(ctx, s.Key.Stream, func(p *cursor.Position) { p.Pass = "zzzzzzzzzzzz" })
		}
	}
	return o.Memory.Settle(ctx, all)
}

// Child streams begin before the commit of their parent. If that commit fails, a child stream that is still being read
// proves nothing. Invariant 12
func TestChildOfAFailedSettlementIsUnproven(t *testing.T) {
	for _, fails := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			leads := &sourcetest.List{Records: sourcetest.Records(0, 3), Size: 10, Total: true}
			notes := &sourcetest.List{Records: sourcetest.Records(0, 9), Size: 10, End: extract.End{Rule: extract.RuleParents, Parents: 3}}
			child := sourcetest.Stream("crm_notes")
			child.Parent = "crm_leads"
			r := newRig(t, map[string]*sourcetest.List{"crm_leads": leads, "crm_notes": notes}, sourcetest.Stream("crm_leads"), child)
			r.config.limits = limits{}
			r.must(StatusComplete)
			notes.Wait = func(context.Context, int) { time.Sleep(2 * settleAge) }
			if fails {
				r.config.Destinations = []Destination{{Name: "warehouse", Destination: overtaken{r.memory, r}}}
			}
			rep, err := r.run(t.Context())
			require.NoError(t, err)
			want, status := Proven, StatusComplete
			if fails {
				want, status = Unproven, StatusFailed
			}
			require.Equal(t, status, rep.Streams[0].Status)
			require.Equal(t, want, r.last("crm_notes").Parent)
			require.Equal(t, string(want), r.certificates("crm_notes")[1]["verdict"])
		})
	}
}

// If the commit of a stream to one destination fails, the stream is read again for this destination. Its child streams
// still wait for the other destination.
func TestFailedSettlementIsNoSecondDestination(t *testing.T) {
	ended := 0
	s := newSettleQueue(t.Context(), 1, NewBudget(1)).slot(t.Context(), func() { ended++ })
	defer s.leave()
	s.finish("a", 2)
	s.unfinish("a")
	s.finish("a", 2)
	require.Zero(t, ended)
	s.finish("b", 2)
	require.Equal(t, 1, ended)
}
