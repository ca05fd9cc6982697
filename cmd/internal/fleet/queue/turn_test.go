//go:build unix

package queue_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock-data/penstock/cmd/internal/fleet/queue"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/postgres"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type bench struct {
	*testing.T
	store   *postgres.Store
	journal state.Journal
	units   state.UnitStore
	begun   chan held
	order   []string
	under   []held
}

type held struct {
	name string
	done chan struct{}
}

func newBench(t *testing.T) *bench {
	s := postgres.New(postgres.Options{URL: pgtest.Start(t).URL(), Enqueue: queue.Enqueue})
	_, _, err := s.Migrate(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	pool, schema, err := s.Queue(t.Context())
	require.NoError(t, err)
	_, err = queue.Migrate(t.Context(), pool, schema)
	require.NoError(t, err)
	j, err := s.OpenJournal(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	units, err := s.OpenUnits(t.Context())
	require.NoError(t, err)
	return &bench{T: t, store: s, journal: j, units: units, begun: make(chan held)}
}

func (b *bench) plan(pipeline, cause string, sources int) {
	b.Helper()
	require.NoError(b, b.journal.KeepRun(b.Context(), state.RunRecord{Pipeline: pipeline, Run: "run of " + pipeline, Cause: cause, Status: "running"}))
	var units []state.Unit
	for i := range sources {
		for _, part := range []string{"a", "b"} {
			units = append(units, state.Unit{Run: "run of " + pipeline, Pipeline: pipeline, Source: fmt.Sprint(i), Part: part})
		}
	}
	added, err := b.units.AddUnits(b.Context(), units)
	require.NoError(b, err)
	require.Len(b, added, len(units))
}

func (b *bench) work(name string, slots int, pipelines ...string) (end func()) {
	pool, schema, err := b.store.Queue(b.Context())
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	w := queue.Worker{
		Pool: pool, Schema: schema, Slots: slots, Log: slog.New(slog.DiscardHandler),
		Pipelines: func() []string { return pipelines },
		Drain:     func(context.Context) error { return nil },
		Now:       b.store.Now,
		Look:      func(ctx context.Context) error { _, err := b.store.Revive(ctx); return err },
		Do: func(ctx context.Context, c queue.Wakeup) (bool, time.Duration, error) {
			if !slices.Contains(pipelines, c.Pipeline) {
				return false, 50 * time.Millisecond, nil
			}
			return b.do(ctx, name, c)
		},
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(b, <-ended)
	}
}

func (b *bench) do(ctx context.Context, worker string, c queue.Wakeup) (bool, time.Duration, error) {
	units, err := b.units.ClaimUnits(ctx, state.Claim{Worker: worker, For: time.Minute, Pipeline: c.Pipeline, Run: c.Run, Source: &c.Source})
	if err != nil || len(units) == 0 {
		return false, 0, err
	}
	h := held{c.Pipeline + " " + c.Source, make(chan struct{})}
	select {
	case b.begun <- h:
	case <-ctx.Done():
		return true, 0, nil
	}
	select {
	case <-h.done:
	case <-ctx.Done():
		return true, 0, nil
	}
	for i := range units {
		units[i].State = state.UnitDone
	}
	if err := b.units.EndAttempts(ctx, units); err != nil {
		return true, 0, err
	}
	return true, 0, nil
}

func (b *bench) next(n int) []string {
	b.Helper()
	for range n {
		select {
		case h := <-b.begun:
			b.order, b.under = append(b.order, h.name), append(b.under, h)
		case <-time.After(time.Minute):
			b.Fatalf("no source begins after %q", b.order)
		}
	}
	return b.order[len(b.order)-n:]
}

func (b *bench) end(name string) {
	b.Helper()
	i := slices.IndexFunc(b.under, func(h held) bool { return h.name == name })
	require.GreaterOrEqual(b, i, 0, "%s is not under way", name)
	close(b.under[i].done)
	b.under = slices.Delete(b.under, i, i+1)
}

func (b *bench) release() {
	b.Helper()
	b.end(b.under[0].name)
}

// A small run gets the next free slot, although its wakeups are behind all others. After that, the two runs take turns.
func TestTurns(t *testing.T) {
	b := newBench(t)
	b.plan("large", "schedule", 14)
	end := []func(){b.work("one", 2, "large", "small", "late"), b.work("other", 1, "large", "small", "late")}
	b.next(3)
	b.release()
	b.next(1)
	b.plan("small", "schedule", 3)
	for range 4 {
		b.release()
		b.next(1)
	}
	after := b.order[4:]
	require.True(t, strings.HasPrefix(after[0], "small"), "%q", b.order)
	require.Equal(t, 2, strings.Count(strings.Join(after, ","), "small"), "%q", b.order)
	b.plan("late", "schedule", 1)
	b.release()
	require.Equal(t, []string{"late 0"}, b.next(1))
	for len(b.order) < 18 {
		b.release()
		b.next(1)
	}
	for len(b.under) > 0 {
		b.release()
	}
	seen := slices.Clone(b.order)
	slices.Sort(seen)
	require.Len(t, slices.Compact(seen), 18, "each once: %q", b.order)
	require.Eventually(t, func() bool {
		left, err := b.units.Units(t.Context(), state.UnitFilter{Active: true})
		return err == nil && len(left) == 0
	}, time.Minute, 10*time.Millisecond)
	for _, e := range end {
		e()
	}
}

// A worker leaves out pipelines that it does not know.
func TestTurnsOfOneSlot(t *testing.T) {
	b := newBench(t)
	b.plan("unknown", "schedule", 3)
	b.plan("large", "schedule", 4)
	end := b.work("one", 1, "large", "small", "events")
	b.next(1)
	b.plan("small", "schedule", 2)
	b.plan("events", "refresh", 1)
	require.Equal(t, []string{"events 0"}, b.next(1))
	b.end("events 0")
	for b.release(); len(b.order) < 7; b.release() {
		b.next(1)
	}
	require.Equal(t, []string{"large 0", "events 0", "small 0", "large 1", "small 1", "large 2", "large 3"}, b.order)
	end()
}
