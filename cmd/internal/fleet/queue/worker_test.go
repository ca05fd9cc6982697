//go:build unix

package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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
	pooled  bool
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
	server := pgtest.Start(t)
	return newBenchAt(t, server, server.URL())
}

// newBenchAt connects to the server at the given URL.
func newBenchAt(t *testing.T, server *pgtest.Server, url string) *bench {
	s := postgres.New(postgres.Options{URL: server.URL(), Jobs: queue.Jobs{}})
	_, _, err := s.Migrate(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	pool, schema, err := s.Queue(t.Context())
	require.NoError(t, err)
	_, err = queue.Migrate(t.Context(), pool, schema)
	require.NoError(t, err)
	if url != server.URL() {
		require.NoError(t, s.Close())
		s = postgres.New(postgres.Options{URL: url, Jobs: queue.Jobs{}})
	}
	pooled, err := s.Pooled(t.Context())
	require.NoError(t, err)
	require.Equal(t, url != server.URL(), pooled)
	j, err := s.OpenJournal(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	units, err := s.OpenUnits(t.Context())
	require.NoError(t, err)
	return &bench{T: t, pooled: pooled, store: s, journal: j, units: units, begun: make(chan held)}
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
		Pool: pool, Schema: schema, Pooled: b.pooled, Slots: slots, Log: slog.New(slog.DiscardHandler), Life: time.Second, Now: b.store.Now,
		Drain: func(context.Context) error { return nil },
		Held: func(ctx context.Context, u queue.Job) (bool, error) {
			return b.store.Held(ctx, u.Run, u.Pipeline, u.Source)
		},
		Cancel: func(ctx context.Context, u queue.Job) error {
			_, err := b.units.CancelUnits(ctx, state.UnitFilter{Run: u.Run, Source: &u.Source})
			return err
		},
		Do: func(ctx context.Context, u queue.Job, cancelled <-chan struct{}) (time.Time, error) {
			if !slices.Contains(pipelines, u.Pipeline) {
				return b.store.Now().Add(50 * time.Millisecond), nil
			}
			if err := b.do(ctx, name, u, cancelled); err != nil {
				return time.Time{}, err
			}
			left, err := b.units.Units(ctx, state.UnitFilter{Run: u.Run, Source: &u.Source, Active: true, Limit: 1})
			if err != nil || len(left) == 0 {
				return time.Time{}, err
			}
			return b.store.Now().Add(50 * time.Millisecond), nil // the units cannot be claimed yet, so try again soon
		},
	}
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return func() {
		cancel()
		require.NoError(b, <-ended)
	}
}

func (b *bench) do(ctx context.Context, worker string, u queue.Job, cancelled <-chan struct{}) error {
	units, err := b.units.ClaimUnits(ctx, state.Claim{Worker: worker, For: time.Minute, Pipeline: u.Pipeline, Run: u.Run, Source: &u.Source})
	if err != nil || len(units) == 0 {
		return err
	}
	h := held{u.Pipeline + " " + u.Source, make(chan struct{})}
	select {
	case b.begun <- h:
	case <-ctx.Done():
		return nil
	}
	select {
	case <-h.done:
	case <-cancelled:
		return nil
	case <-ctx.Done():
		return nil
	}
	for i := range units {
		units[i].State = state.UnitDone
	}
	return b.units.EndAttempts(ctx, units)
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

// A small run gets the next free slot, although its jobs were added last. After that, the two runs take turns.
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
	require.Len(t, slices.Compact(seen), 18, "each source begins once: %q", b.order)
	require.Eventually(t, func() bool {
		left, err := b.units.Units(t.Context(), state.UnitFilter{Active: true})
		return err == nil && len(left) == 0
	}, time.Minute, 10*time.Millisecond)
	for _, e := range end {
		e()
	}
}

// A worker leaves out pipelines that are not in its configuration.
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

// If a worker is gone, River gives its jobs to another worker. The jobs of a living worker stay with it.
func TestRescue(t *testing.T) {
	b := newBench(t)
	b.plan("all", "schedule", 3)
	pool, schema, err := b.store.Queue(t.Context())
	require.NoError(t, err)
	claim := func(source string, life time.Duration) {
		_, err := b.units.ClaimUnits(t.Context(), state.Claim{Worker: "gone", For: life, Source: &source, Pipeline: "all", Run: "run of all"})
		require.NoError(t, err)
	}
	claim("0", time.Millisecond)
	claim("1", time.Hour)
	jobs := pgx.Identifier{schema, "river_job"}.Sanitize()
	_, err = pool.Exec(t.Context(), "UPDATE "+jobs+" SET state = 'running', attempt = 1, attempted_by = '{gone}', attempted_at = clock_timestamp() - interval '3 minutes'")
	require.NoError(t, err)
	begun := time.Now()
	end := b.work("next", 3, "all")
	require.ElementsMatch(t, []string{"all 0", "all 2"}, b.next(2))
	t.Logf("rescued after %s", time.Since(begun).Round(time.Millisecond))
	b.release()
	b.release()
	count := func(state string) (n int) {
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM "+jobs+" WHERE state = $1", state).Scan(&n))
		return n
	}
	require.Eventually(t, func() bool { return count("completed") == 2 }, time.Minute, 20*time.Millisecond)
	require.Equal(t, 1, count("running"), "one job still runs, because a living worker has its units")
	end()
}

// Cancelled units stop at once, and the queue shows their jobs as cancelled.
func TestCancel(t *testing.T) {
	cancelUnits(t, newBench(t))
}

// Through a PgBouncer in transaction mode, the worker polls instead of listening. Cancelled units still stop.
func TestCancelThroughPooler(t *testing.T) {
	server := pgtest.Start(t, "log_statement=all", "log_min_messages=log")
	cancelUnits(t, newBenchAt(t, server, server.Pooler(t, "default_pool_size = 4")))
	require.Contains(t, server.Log(), "FROM units")
	require.NotContains(t, server.Log(), "LISTEN")
}

func cancelUnits(t *testing.T, b *bench) {
	t.Helper()
	b.plan("all", "schedule", 2)
	end := b.work("one", 1, "all")
	b.next(1)
	n, err := b.units.CancelUnits(t.Context(), state.UnitFilter{Run: "run of all"})
	require.NoError(t, err)
	require.Equal(t, 4, n)
	pool, schema, err := b.store.Queue(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		var n int
		require.NoError(t, pool.QueryRow(t.Context(), "SELECT count(*) FROM "+pgx.Identifier{schema, "river_job"}.Sanitize()+" WHERE state = 'cancelled'").Scan(&n))
		return n == 2
	}, time.Minute, 20*time.Millisecond)
	end()
}

// The jobs of waiting units are deleted, or cancelled, in the queue. A deleted job is inserted again, once. The units
// of a cancelled job are cancelled.
func TestRestoreJobs(t *testing.T) {
	b := newBench(t)
	b.plan("all", "schedule", 4)
	pool, schema, err := b.store.Queue(t.Context())
	require.NoError(t, err)
	jobs := pgx.Identifier{schema, "river_job"}.Sanitize()
	for source, change := range map[string]string{
		"0": "DELETE FROM " + jobs + " WHERE args ->> 'source' = $1",
		"1": "UPDATE " + jobs + " SET state = 'cancelled', finalized_at = now() WHERE args ->> 'source' = $1",
		"2": "UPDATE " + jobs + " SET state = 'discarded', finalized_at = now() WHERE args ->> 'source' = $1",
	} {
		_, err := pool.Exec(t.Context(), change, source)
		require.NoError(t, err)
	}
	restored, cancelled, err := b.store.RestoreJobs(t.Context(), "run of all")
	require.NoError(t, err)
	require.Equal(t, []int{4, 2}, []int{restored, cancelled}, "each source has two units")
	restored, cancelled, err = b.store.RestoreJobs(t.Context(), "run of all")
	require.NoError(t, err)
	require.Equal(t, []int{0, 0}, []int{restored, cancelled})
	end := b.work("one", 4, "all")
	require.ElementsMatch(t, []string{"all 0", "all 2", "all 3"}, b.next(3))
	restored, cancelled, err = b.store.RestoreJobs(t.Context(), "run of all")
	require.NoError(t, err)
	require.Equal(t, []int{0, 0}, []int{restored, cancelled}, "running jobs do not count as lost")
	for range 3 {
		b.release()
	}
	require.Eventually(t, func() bool {
		left, err := b.units.Units(t.Context(), state.UnitFilter{Active: true})
		return err == nil && len(left) == 0
	}, time.Minute, 10*time.Millisecond)
	end()
}

// The queue shows why a failed job is retried, and when.
func TestRetry(t *testing.T) {
	b := newBench(t)
	at := b.store.Now().Add(time.Hour).Truncate(time.Microsecond)
	b.failing(at, "state = 'retryable' AND attempt = 1 AND scheduled_at = $1 AND errors[1] ->> 'error' = 'the source is down'", at)
}

// An error without a time does not count as an attempt. Otherwise River would discard the job after many attempts.
func TestRetryWithoutATime(t *testing.T) {
	b := newBench(t)
	b.failing(time.Time{}, "state IN ('available', 'scheduled') AND attempt = 0 AND scheduled_at > now() AND errors IS NULL")
}

// failing fails the work on a job, and waits until the job is in the state that the condition describes.
func (b *bench) failing(next time.Time, condition string, args ...any) {
	b.Helper()
	b.plan("all", "schedule", 1)
	pool, schema, err := b.store.Queue(b.Context())
	require.NoError(b, err)
	w := queue.Worker{
		Pool: pool, Schema: schema, Slots: 1, Log: slog.New(slog.DiscardHandler), Life: time.Second, Now: b.store.Now,
		Drain: func(context.Context) error { return nil },
		Do: func(context.Context, queue.Job, <-chan struct{}) (time.Time, error) {
			return next, errors.New("the source is down")
		},
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	require.Eventually(b, func() bool {
		var n int
		require.NoError(b, pool.QueryRow(b.Context(), "SELECT count(*) FROM "+pgx.Identifier{schema, "river_job"}.Sanitize()+" WHERE "+condition, args...).Scan(&n))
		return n == 1
	}, time.Minute, 20*time.Millisecond)
	cancel()
	require.NoError(b, <-ended)
}
