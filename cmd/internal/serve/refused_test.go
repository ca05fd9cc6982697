package serve

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// sharedJournal is a journal that another process uses too.
type sharedJournal struct {
	state.Journal
	mu     sync.Mutex
	other  string            // id of a run that the other process has begun, or ""
	orphan *state.SlotRecord // a slot whose process was killed, or nil
}

func (j *sharedJournal) refuse(run string) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.other == "" || j.other == run {
		return nil
	}
	return &state.UnderWay{Run: j.other}
}

func (j *sharedJournal) end(context.Context, string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.other = ""
}

func (j *sharedJournal) BeginRun(ctx context.Context, r state.RunRecord) error {
	if err := j.refuse(r.Run); err != nil {
		return err
	}
	return j.Journal.BeginRun(ctx, r)
}

func (j *sharedJournal) SetSlot(ctx context.Context, s state.SlotRecord, runs ...state.RunRecord) error {
	if s.State == state.SlotRunning {
		if err := j.refuse(s.Run); err != nil {
			return err
		}
	}
	if s.State == state.SlotRan {
		j.mu.Lock()
		if j.other == s.Run {
			j.other = ""
		}
		j.mu.Unlock()
	}
	return j.Journal.SetSlot(ctx, s, runs...)
}

func (j *sharedJournal) Orphans(context.Context, string) (all []state.SlotRecord, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.orphan != nil {
		all, j.orphan = append(all, *j.orphan), nil
	}
	return all, nil
}

// A slot cannot begin, because another process has begun a run. That process was killed, so its run never ends by
// itself. The daemon reports this once. It calls Await, which ends the other run, and then the slot begins.
// Invariant 15
func TestOtherRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		shared := &sharedJournal{other: "r1"}
		r.wrap = func(j state.Journal) state.Journal { shared.Journal = j; return shared }
		p := r.pipeline("p", plan(t, "@hourly", CatchUpOnce))
		var awaited []string
		p.Await = func(ctx context.Context, run string) {
			awaited = append(awaited, run)
			if pause(ctx, 10*time.Minute) {
				shared.end(ctx, run)
			}
		}
		r.start(p)
		time.Sleep(65 * time.Minute)
		require.Equal(t, []string{"01:00 waiting "}, told(r.slots("p")))
		late := seen[RunLate](r)
		require.Len(t, late, 1, "one notice per slot")
		require.Equal(t, "run r1 was still in progress", late[0].Why)
		require.Empty(t, seen[RunStarted](r))
		time.Sleep(6 * time.Minute)
		require.Equal(t, []string{"01:00 ran complete"}, told(r.slots("p")))
		r.stop()
		require.Equal(t, "r1", awaited[0])
	})
}

// A run that cannot begin because of another run leaves no record, and no notice reports its end. The daemon calls
// Await for the other run. A daemon that is stopped meanwhile stops at once. // Invariant 14
func TestRefusedRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		shared := &sharedJournal{other: "r1"}
		r.wrap = func(j state.Journal) state.Journal { shared.Journal = j; return shared }
		p := r.pipeline("p", Plan{})
		awaited := make(chan string, 1)
		p.Await = func(ctx context.Context, run string) {
			awaited <- run
			<-ctx.Done()
		}
		r.start(p)
		run, err := r.d.RunNow("p", RunRequest{})
		require.NoError(t, err)
		require.Equal(t, "r1", <-awaited)
		synctest.Wait()
		require.Empty(t, seen[RunStarted](r))
		require.Empty(t, seen[RunEnded](r))
		_, known, err := r.j.Run(t.Context(), run)
		require.NoError(t, err)
		require.False(t, known)
		s, _ := r.d.Hub().Status("p")
		require.Nil(t, s.Running)
		shared.end(t.Context(), "r1")
		_, err = r.d.RunNow("p", RunRequest{})
		require.NoError(t, err)
		synctest.Wait()
		require.Len(t, seen[RunEnded](r), 1)
		r.stop()
	})
}

// A slot waits for the run of an earlier slot, whose process was killed. The daemon takes over the earlier slot and
// continues it first. // Invariant 18
func TestAdoptedSlotFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		first := time.Now().Add(time.Hour)
		shared := &sharedJournal{other: "r1"}
		r.wrap = func(j state.Journal) state.Journal { shared.Journal = j; return shared }
		time.Sleep(90 * time.Minute)
		p := r.pipeline("p", plan(t, "@hourly", CatchUpAll))
		p.Planned = true
		var runs []string
		r.run = func(_ context.Context, o RunRequest) (pipeline.Report, error) {
			runs = append(runs, string(o.Trigger))
			return pipeline.Report{Status: pipeline.StatusComplete}, nil
		}
		r.start(p)
		time.Sleep(time.Hour)
		synctest.Wait() // shows the race detector that no call of r.run is in progress
		require.Empty(t, runs)
		shared.mu.Lock()
		shared.orphan = &state.SlotRecord{Pipeline: "p", Due: first.UTC(), State: state.SlotRunning, Run: "r1", Attempts: 1, Count: 1}
		shared.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, []string{"resume", "schedule"}, runs)
		require.Equal(t, []string{"01:00 ran complete", "02:00 ran complete"}, told(r.slots("p")))
		r.stop()
	})
}

// If the run of a waiting slot was interrupted, this slot is run next, even if it is not the oldest.
func TestPickInterrupted(t *testing.T) {
	all := []state.SlotRecord{{Run: "a"}, {Run: "b", Attempts: 1}, {Run: "c"}}
	next, _, rest := Plan{CatchUp: CatchUpAll}.pick(slices.Clone(all))
	require.Equal(t, "b", next.Run)
	require.Equal(t, []state.SlotRecord{all[0], all[2]}, rest)
}
