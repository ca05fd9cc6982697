package fleet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

type unused state.Units

type ledger struct {
	unused

	mu    sync.Mutex
	units []state.Unit
	taken map[int64]bool // units that another worker has taken over
	beats int
	down  error
}

func (l *ledger) ClaimUnits(_ context.Context, c state.Claim) ([]state.Unit, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.units {
		l.units[i].State, l.units[i].Worker, l.units[i].Attempt = state.UnitRunning, c.Worker, 1
	}
	return slices.Clone(l.units), nil
}

func (l *ledger) ExtendClaims(_ context.Context, _ string, ids []int64, _ time.Duration) (kept []int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down != nil {
		return nil, l.down
	}
	l.beats++
	for _, id := range ids {
		if u := l.units[id-1]; u.State == state.UnitRunning && !l.taken[id] {
			kept = append(kept, id)
		}
	}
	return kept, nil
}

func (l *ledger) EndAttempts(_ context.Context, units []state.Unit) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down != nil {
		return l.down
	}
	for _, u := range units {
		if l.taken[u.ID] {
			err = state.ErrTaken
			continue
		}
		l.units[u.ID-1] = u
	}
	return err
}

func (l *ledger) set(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func newLedger(parts ...string) *ledger {
	l := &ledger{taken: map[int64]bool{}}
	for i, p := range parts {
		l.units = append(l.units, state.Unit{ID: int64(i + 1), Part: p})
	}
	return l
}

func TestClaimerSettlesEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger("a a.child", "b", "c")
		h := Claimer{Units: l, Name: "w", Life: 6 * time.Second}
		ended := func(stream, to string, s pipeline.Status) pipeline.StreamReport {
			return pipeline.StreamReport{Stream: stream, Destination: to, Status: s, Requests: 2}
		}
		n, err := h.Work(t.Context(), state.Claim{}, func(ctx context.Context, units []state.Unit, settle func(...state.Unit)) []state.Unit {
			a := NewAttempt(units, 2, time.Now, strings.Clone, settle)
			for _, r := range []pipeline.StreamReport{
				ended("a", "x", pipeline.StatusComplete), ended("a", "y", pipeline.StatusComplete), ended("a.child", "x", pipeline.StatusComplete),
				ended("c", "x", pipeline.StatusComplete), ended("c", "y", pipeline.StatusFailed),
			} {
				a.ended(r)
			}
			require.Equal(t, state.UnitRunning, l.units[0].State, "the stream is not complete in every destination")
			a.ended(ended("a.child", "y", pipeline.StatusComplete))
			time.Sleep(settleEvery)
			synctest.Wait()
			require.Equal(t, state.UnitDone, l.units[0].State)
			require.Len(t, ReportOf(l.units[0]).Streams, 4)
			require.Equal(t, 4, ReportOf(l.units[0]).Requests)
			time.Sleep(time.Minute)
			require.NoError(t, ctx.Err(), "a settled unit needs no heartbeat")
			b := ended("b", "x", pipeline.StatusComplete)
			return a.Settle(pipeline.Report{Status: pipeline.StatusFailed, Requests: 9, Streams: []pipeline.StreamReport{b, ended("c", "y", pipeline.StatusFailed)}}, nil, false)
		})
		require.NoError(t, err)
		require.Equal(t, 3, n)
		require.Equal(t, state.UnitDone, l.units[1].State)
		require.Equal(t, 5, ReportOf(l.units[1]).Requests, "this unit reports the requests that no other unit has reported")
		require.Equal(t, state.UnitWaiting, l.units[2].State, "the unit is retried")
		require.Greater(t, l.beats, 50)
	})
}

// If the store does not answer, the attempt ends before another worker may claim its units. // Invariant 13
func TestClaimerLosesUnits(t *testing.T) {
	for name, lose := range map[string]func(*ledger){
		"taken":     func(l *ledger) { l.taken[2] = true },
		"no answer": func(l *ledger) { l.down = errors.New("not there") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLedger("a", "b")
				h := Claimer{Units: l, Name: "w", Life: 6 * time.Second}
				_, err := h.Work(t.Context(), state.Claim{}, func(ctx context.Context, units []state.Unit, _ func(...state.Unit)) []state.Unit {
					time.Sleep(3 * time.Second)
					require.NoError(t, ctx.Err())
					l.mu.Lock()
					lose(l)
					l.mu.Unlock()
					begun := time.Now()
					<-ctx.Done()
					require.ErrorIs(t, context.Cause(ctx), ErrUnitsLost)
					require.LessOrEqual(t, time.Since(begun), 5*time.Second, "the attempt ends before another worker may claim the units")
					return units
				})
				require.ErrorIs(t, err, l.down, "the results are not stored")
			})
		})
	}
}

// When no other worker can take its units, an attempt continues without the store. It ends when its units are
// cancelled.
func TestClaimerAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger("a", "b")
		h := Claimer{Units: l, Name: "w", Life: 6 * time.Second, Alone: true}
		_, err := h.Work(t.Context(), state.Claim{}, func(ctx context.Context, units []state.Unit, settle func(...state.Unit)) []state.Unit {
			l.set(func() { l.down = errors.New("not there") })
			done := units[0]
			done.State = state.UnitDone
			settle(done)
			time.Sleep(time.Hour)
			require.NoError(t, ctx.Err())
			l.set(func() { l.down = nil })
			time.Sleep(settleEvery)
			synctest.Wait()
			require.Equal(t, state.UnitDone, l.units[0].State)
			l.set(func() { l.taken[2] = true })
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), ErrUnitsLost)
			return units[1:]
		})
		require.NoError(t, err)
	})
}
