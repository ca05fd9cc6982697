package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve/schedule"
	"github.com/penstock-data/penstock/state"
)

// The daemon restarts so often that no run ends between two restarts. Every slot has one record and begins in
// time, and every run ends. // Invariant 18
func TestRestarts(t *testing.T) {
	hours := 24
	if testing.Short() {
		hours = 3
	}
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		begun := time.Now()
		left := map[int]time.Duration{}
		r.run = func(ctx context.Context, o RunRequest) (pipeline.Report, error) {
			for hour := time.Now().Hour(); ; {
				if _, ok := left[hour]; !ok {
					left[hour] = 70 * time.Second
				}
				if left[hour] <= 0 {
					return pipeline.Report{Status: pipeline.StatusComplete}, nil
				}
				if !pause(ctx, time.Second) {
					return pipeline.Report{Status: pipeline.StatusStopped}, nil
				}
				left[hour] -= time.Second
			}
		}
		for time.Since(begun) < time.Duration(hours)*time.Hour+10*time.Minute {
			r.start(r.pipeline("p", plan(t, "@hourly", CatchUpOnce)))
			time.Sleep(30 * time.Second)
			r.stop()
		}
		r.start()
		defer r.stop()
		all := r.slots("p")
		require.Len(t, all, hours)
		for i, s := range all {
			require.True(t, s.Due.Equal(begun.Add(time.Duration(i+1)*time.Hour)), "%s", s.Due)
			require.Equal(t, "ran complete", string(s.State)+" "+s.Status, "%+v", s)
			require.LessOrEqual(t, s.Attempts, 4)
		}
		for _, s := range seen[RunStarted](r) {
			if s.Trigger == TriggerSchedule {
				require.LessOrEqual(t, s.At.Sub(s.Due), time.Minute)
			}
		}
		require.Equal(t, 1, r.most)
		require.Empty(t, seen[RunLate](r))
		require.Equal(t, map[string]int{"ran": hours}, outcomes(r))
	})
}

func outcomes(r *rig) map[string]int {
	all := map[string]int{}
	for _, n := range seen[RunEnded](r) {
		switch {
		case n.Over && n.Late:
			all["late"]++
		case n.Over:
			all["ran"]++
		}
	}
	for _, n := range seen[SlotSkipped](r) {
		all[string(n.Cause)] += n.Count
	}
	return all
}

func TestCatchUp(t *testing.T) {
	for policy, want := range map[CatchUp][]string{
		CatchUpOnce: {"skipped", "skipped", "skipped", "skipped", "ran"},
		CatchUpAll:  {"ran", "ran", "ran", "ran", "ran"},
		CatchUpNone: {"skipped", "skipped", "skipped", "skipped", "skipped"},
	} {
		t.Run(string(policy), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				p := r.pipeline("p", plan(t, "@hourly", policy))
				r.start(p)
				time.Sleep(10 * time.Minute)
				r.stop()
				time.Sleep(5 * time.Hour)
				r.start(p)
				time.Sleep(time.Minute)
				var got []string
				for _, s := range r.slots("p") {
					got = append(got, string(s.State))
					require.True(t, s.State == state.SlotRan || s.Why != "", "%+v", s)
				}
				require.Equal(t, want, got)
				require.NotEmpty(t, seen[RunLate](r))
				require.Equal(t, map[CatchUp]map[string]int{
					CatchUpOnce: {"made up": 4, "late": 1}, CatchUpAll: {"late": 5}, CatchUpNone: {"missed": 5},
				}[policy], outcomes(r))
				for _, s := range r.slots("p") {
					require.Equal(t, policy == CatchUpNone, Skip(s.Cause).Missed(), "%+v", s)
				}
				time.Sleep(time.Hour)
				require.Len(t, r.slots("p"), 6, "later slots are run")
				r.stop()
			})
		})
	}
}

func TestOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.run = func(ctx context.Context, o RunRequest) (pipeline.Report, error) {
			pause(ctx, 150*time.Minute)
			return pipeline.Report{Status: pipeline.StatusComplete}, nil
		}
		r.start(r.pipeline("p", plan(t, "@hourly", CatchUpOnce)))
		time.Sleep(4*time.Hour + 50*time.Minute)
		all := r.slots("p")
		require.Equal(t, []state.SlotState{state.SlotRan, state.SlotSkipped, state.SlotSkipped, state.SlotRunning},
			[]state.SlotState{all[0].State, all[1].State, all[2].State, all[3].State})
		require.Contains(t, all[1].Why, "run "+all[0].Run+" was still in progress")
		require.Len(t, seen[RunLate](r), 2)
		require.Equal(t, map[string]int{"ran": 1, "still busy": 2}, outcomes(r))
		_, err := r.d.RunNow("p", RunRequest{})
		require.ErrorIs(t, err, ErrBusy)
		r.stop()
		require.Equal(t, 1, r.most)
	})
}

// A slot is due during a run of only some streams. It is run right after that run.
func TestSlotAfterPartialRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.run = func(ctx context.Context, o RunRequest) (pipeline.Report, error) {
			pause(ctx, 10*time.Minute)
			return pipeline.Report{Status: pipeline.StatusComplete}, nil
		}
		r.start(r.pipeline("p", plan(t, "@hourly", CatchUpOnce)))
		time.Sleep(55 * time.Minute)
		_, err := r.d.RunNow("p", RunRequest{Streams: []string{"crm.leads"}})
		require.NoError(t, err)
		time.Sleep(30 * time.Minute)
		all := r.slots("p")
		require.Equal(t, []string{"01:00 ran complete"}, told(all))
		require.Equal(t, 5*time.Minute, all[0].Started.Sub(all[0].Due))
		require.Equal(t, 1, r.most)
		r.stop()
	})
}

// The clock jumps forwards and backwards, and the daemon restarts. Every slot has one record, and none is run
// twice.
func TestClockJumps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		policy := rapid.SampledFrom([]CatchUp{CatchUpOnce, CatchUpAll, CatchUpNone}).Draw(rt, "policy")
		cron := rapid.SampledFrom([]string{"@hourly", "*/20 * * * *", "@daily"}).Draw(rt, "cron")
		p := plan(t, cron, policy)
		start := time.Date(2026, 3, 28, 20, 7, 0, 0, time.UTC)
		recorded, ran := map[time.Time]int{}, map[time.Time]int{}
		sofar, now, latest := start, start, start
		for range rapid.IntRange(1, 40).Draw(rt, "looks") {
			now = now.Add(rapid.SampledFrom([]time.Duration{
				15 * time.Second, time.Minute, 20 * time.Minute, time.Hour, 8 * time.Hour, 24 * time.Hour, -time.Hour, -24 * time.Hour,
			}).Draw(rt, "jump"))
			if now.Before(start) {
				now = start
			}
			if now.After(latest) {
				latest = now
			}
			if now.Before(sofar) { // worker.look does the same
				sofar = now
			}
			d := p.due("p", sofar, now, slotState{})
			for _, s := range d.slots {
				if recorded[s.Due] == 0 { // the journal also stores only the first record of a slot
					recorded[s.Due] = 1
					if s.State == state.SlotWaiting {
						ran[s.Due]++
					}
				}
				sofar = s.Due
			}
			require.True(rt, d.next.After(now))
		}
		want := p.Upcoming(start, 10_000)
		want = want[:slices.IndexFunc(want, latest.Before)]
		require.Len(rt, recorded, len(want))
		for _, at := range want {
			require.Equal(rt, 1, recorded[at], "%s", at)
			require.LessOrEqual(rt, ran[at], 1)
			if policy == CatchUpAll {
				require.Equal(rt, 1, ran[at])
			}
		}
	})
}

// If the clock is set back, recorded slots are not run again.
func TestClockSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.start(r.pipeline("p", plan(t, "@hourly", CatchUpAll)))
		synctest.Wait()
		w, err := r.d.worker("p")
		require.NoError(t, err)
		base := time.Now()
		for _, after := range []time.Duration{61 * time.Minute, 2*time.Hour + time.Minute, 10 * time.Minute, 62 * time.Minute, 125 * time.Minute, 3*time.Hour + time.Second, 26 * time.Hour} {
			for range 30 {
				w.look(r.d.ctx, base.Add(after))
				synctest.Wait()
			}
		}
		all := r.slots("p")
		require.Len(t, all, 26)
		for _, s := range all {
			require.Equal(t, 1, s.Attempts, "%+v", s)
		}
		slices.SortFunc(r.dues, time.Time.Compare)
		require.Len(t, slices.CompactFunc(slices.Clone(r.dues), time.Time.Equal), len(r.dues), "no slot is run twice")
		r.stop()
	})
}

func TestClockOfThisMachineWrong(t *testing.T) {
	for _, apart := range []time.Duration{-5 * time.Hour, 5 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.now = func() time.Time { return time.Now().Round(0).Add(apart) }
			begun := r.now()
			r.start(r.pipeline("p", plan(t, "@hourly", CatchUpAll)))
			time.Sleep(3*time.Hour + time.Minute)
			synctest.Wait()
			require.NoError(t, r.d.Alive())
			all := r.slots("p")
			require.Len(t, all, 3)
			for i, s := range all {
				require.Equal(t, begun.Truncate(time.Hour).Add(time.Duration(i+1)*time.Hour).UTC(), s.Due.UTC())
				require.WithinRange(t, s.Started, s.Due, s.Due.Add(time.Second))
				require.WithinRange(t, s.Ended, s.Started, s.Due.Add(time.Second))
				run, found, err := r.j.Run(t.Context(), s.Run)
				require.NoError(t, err)
				require.True(t, found)
				require.WithinRange(t, run.Log[0].At, s.Due, s.Due.Add(time.Second))
			}
			require.True(t, slices.IsSortedFunc(all, func(a, b state.SlotRecord) int { return strings.Compare(a.Run, b.Run) }))
			s, _ := r.d.Hub().Status("p")
			require.Equal(t, all[2].Due.Add(time.Hour).UTC(), s.Next[0].UTC())
			r.stop()
		})
	}
}

// A daemon is killed during a run. The slot still has one record. If every process is killed during the same run,
// the run is given up.
func TestKilled(t *testing.T) {
	for _, tt := range []struct {
		left state.SlotRecord
		want string
		runs int
	}{
		{state.SlotRecord{State: state.SlotWaiting, Cause: "schedule"}, "ran complete", 1},
		{state.SlotRecord{State: state.SlotRunning, Run: "r1", Attempts: 1}, "ran complete", 1},
		{state.SlotRecord{State: state.SlotRunning, Run: "r3", Attempts: 3, Broken: mostBroken - 1}, "ran failed", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			p := r.pipeline("p", plan(t, "@daily", CatchUpOnce))
			r.start(p)
			synctest.Wait()
			tt.left.Due = time.Now()
			_, err := r.j.AddSlots(t.Context(), "p", tt.left.Due, []state.SlotRecord{tt.left})
			require.NoError(t, err)
			r.stop()
			time.Sleep(10 * time.Minute)
			r.start(p)
			time.Sleep(time.Second)
			all := r.slots("p")
			require.Len(t, all, 1)
			require.Equal(t, tt.want, string(all[0].State)+" "+all[0].Status, "%+v", all[0])
			require.Len(t, r.dues, tt.runs)
			r.stop()
		})
	}
}

// Slots that are due during a pause are never run, even after restarts.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		p := r.pipeline("p", plan(t, "@hourly", CatchUpOnce))
		r.start(p)
		require.NoError(t, r.d.Pause(t.Context(), "p"))
		require.ErrorIs(t, r.d.Pause(t.Context(), "other"), ErrUnknown)
		time.Sleep(90 * time.Minute)
		r.stop()
		r.start(p)
		time.Sleep(time.Hour)
		s, ok := r.d.Hub().Status("p")
		require.True(t, ok && s.Paused)
		require.NoError(t, r.d.Resume(t.Context(), "p"))
		time.Sleep(time.Hour)
		require.Equal(t, []string{"01:00 skipped paused", "02:00 skipped paused", "03:00 ran complete"}, told(r.slots("p")))
		require.Equal(t, map[string]int{"ran": 1, "paused": 2}, outcomes(r))
		r.stop()
	})
}

func TestJitterAndDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.run = func(ctx context.Context, o RunRequest) (pipeline.Report, error) {
			<-ctx.Done()
			return pipeline.Report{Status: pipeline.StatusStopped}, nil
		}
		pl := plan(t, "@daily", CatchUpOnce)
		pl.Jitter, pl.Deadline = 2*time.Hour, 2*time.Hour
		p, begun := r.pipeline("p", pl), time.Now()
		for time.Since(begun) < 30*time.Hour {
			r.start(p)
			time.Sleep(time.Hour + 5*time.Minute)
			r.stop()
		}
		r.start(p)
		defer r.stop()
		due := begun.Add(24 * time.Hour)
		started := seen[RunStarted](r)[0]
		require.True(t, started.Due.Equal(due))
		require.Equal(t, schedule.Jitter("p", due, pl.Jitter), started.At.Sub(due))
		require.Greater(t, started.At.Sub(due), onTime)
		require.NotContains(t, outcomes(r), "late", "a delay by jitter does not count as late")
	})
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var cause error
		r.run = func(ctx context.Context, o RunRequest) (pipeline.Report, error) {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return pipeline.Report{Status: pipeline.StatusStopped}, nil
		}
		pl := plan(t, "@daily", CatchUpOnce)
		pl.Deadline = 2 * time.Hour
		r.start(r.pipeline("p", pl))
		time.Sleep(27 * time.Hour)
		all := r.slots("p")
		require.Equal(t, []string{"00:00 ran stopped"}, told(all))
		require.Equal(t, 2*time.Hour, all[0].Ended.Sub(all[0].Started))
		require.ErrorContains(t, cause, "deadline of 2h0m0s")
		run, ok, err := r.j.Run(t.Context(), all[0].Run)
		require.NoError(t, err)
		require.True(t, ok)
		require.Contains(t, fmt.Sprint(run.Log), "stopped by its deadline of 2h0m0s")
		r.stop()
	})
}

func TestLocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.run = func(context.Context, RunRequest) (pipeline.Report, error) {
			return pipeline.Report{}, fmt.Errorf("lock p: %w: held by penstock (pid 7)", state.ErrLocked)
		}
		r.start(r.pipeline("p", plan(t, "@hourly", CatchUpOnce)))
		time.Sleep(61 * time.Minute)
		all := r.slots("p")
		require.Len(t, all, 1)
		require.Equal(t, state.SlotSkipped, all[0].State)
		require.Contains(t, all[0].Why, "held by penstock (pid 7)")
		require.Equal(t, map[string]int{"locked": 1}, outcomes(r), "the skipped slot counts once")
		r.stop()
	})
}

// A new configuration with an error changes nothing. A run in progress keeps its definition.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.run = func(ctx context.Context, o RunRequest) (pipeline.Report, error) {
			pause(ctx, 30*time.Minute)
			return pipeline.Report{Status: pipeline.StatusComplete}, nil
		}
		r.start(r.pipeline("old", plan(t, "@hourly", CatchUpOnce)), r.pipeline("same", plan(t, "@daily", CatchUpOnce)))
		time.Sleep(61 * time.Minute)
		broken := errors.New("pipelines.yaml:7:3: unknown key")
		r.d.Reload = func(context.Context) ([]Pipeline, error) { return nil, broken }
		require.ErrorIs(t, r.d.ReloadNow(t.Context()), broken)
		require.Len(t, r.d.Hub().Statuses(), 2)

		r.d.Reload = func(context.Context) ([]Pipeline, error) {
			return []Pipeline{r.pipeline("same", plan(t, "*/10 * * * *", CatchUpOnce)), r.pipeline("new", Plan{})}, nil
		}
		require.NoError(t, r.d.ReloadNow(t.Context()))
		old, _ := r.d.Hub().Status("old")
		require.NotNil(t, old.Running, "the run goes on")
		time.Sleep(35 * time.Minute)
		require.Equal(t, []string{"01:00 ran complete"}, told(r.slots("old")))
		names := []string{}
		for _, s := range r.d.Hub().Statuses() {
			names = append(names, s.Name)
		}
		require.Equal(t, []string{"new", "same"}, names)
		require.Equal(t, "01:10", r.slots("same")[0].Due.Format("15:04"), "nothing was missed by the new schedule")
		_, err := r.d.RunNow("old", RunRequest{})
		require.ErrorIs(t, err, ErrUnknown)
		_, err = r.d.RunNow("new", RunRequest{})
		require.NoError(t, err)
		r.stop()
		require.Len(t, seen[Reloaded](r), 2)
	})
}

// A pipeline is removed and added again during its run. It waits for the end of that run, and then continues with
// its slots.
func TestReloadTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.run = func(ctx context.Context, o RunRequest) (pipeline.Report, error) {
			pause(ctx, 30*time.Minute)
			return pipeline.Report{Status: pipeline.StatusComplete}, nil
		}
		p := r.pipeline("p", plan(t, "@hourly", CatchUpOnce))
		reload := func(all ...Pipeline) {
			r.d.Reload = func(context.Context) ([]Pipeline, error) { return all, nil }
			require.NoError(t, r.d.ReloadNow(t.Context()))
			synctest.Wait()
		}
		r.start(p)
		time.Sleep(61 * time.Minute)
		reload()
		reload(p)
		_, err := r.d.RunNow("p", RunRequest{})
		require.ErrorIs(t, err, ErrBusy)
		require.Equal(t, []string{"01:00 running "}, told(r.slots("p")))
		reload()
		_, err = r.d.RunNow("p", RunRequest{})
		require.ErrorIs(t, err, ErrUnknown)
		reload(p)
		time.Sleep(30 * time.Minute)
		require.Len(t, r.d.Hub().Statuses(), 1, "it is back")
		time.Sleep(time.Hour)
		require.Equal(t, []string{"01:00 ran complete", "02:00 ran complete"}, told(r.slots("p")))
		require.Equal(t, 1, r.most)
		r.stop()
	})
}
