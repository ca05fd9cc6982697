package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve/schedule"
	"github.com/penstock-data/penstock/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type rig struct {
	t   *testing.T
	dir string
	now func() time.Time // clock of all daemons that share the journal; nil: time.Now

	redact func(string) string
	wrap   func(state.Journal) state.Journal // nil: the journal is used as it is

	d      *Daemon
	j      *state.JournalFile
	cancel context.CancelFunc

	mu      sync.Mutex
	notices []Notice
	most    int
	under   int
	dues    []time.Time
	run     func(ctx context.Context, o RunRequest) (pipeline.Report, error)
}

func newRig(t *testing.T) *rig {
	return &rig{t: t, dir: t.TempDir(), run: func(context.Context, RunRequest) (pipeline.Report, error) {
		return pipeline.Report{Status: pipeline.StatusComplete}, nil
	}}
}

func (r *rig) Observe(n Notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notices = append(r.notices, n)
	if s, ok := n.(RunStarted); ok && !s.Due.IsZero() {
		r.dues = append(r.dues, s.Due)
	}
}

func plan(t testing.TB, cron string, c CatchUp) Plan {
	t.Helper()
	s, err := schedule.Parse(cron, time.UTC)
	require.NoError(t, err)
	return Plan{Schedule: s, CatchUp: c}
}

func (r *rig) pipeline(name string, p Plan) Pipeline {
	return Pipeline{Name: name, Sources: []string{"main"}, Plan: p, Run: func(ctx context.Context, o RunRequest) (pipeline.Report, error) {
		r.mu.Lock()
		r.under++
		r.most = max(r.most, r.under)
		run := r.run
		r.mu.Unlock()
		defer func() {
			r.mu.Lock()
			r.under--
			r.mu.Unlock()
		}()
		rep, err := run(ctx, o)
		rep.Run, rep.Pipeline = o.Run, name
		return rep, err
	}}
}

func (r *rig) start(all ...Pipeline) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	j, err := state.OpenJournal(ctx, r.dir)
	require.NoError(r.t, err)
	r.j, r.cancel = j, cancel
	var used state.Journal = j
	if r.wrap != nil {
		used = r.wrap(j)
	}
	r.d = New(Config{Journal: used, Now: r.now, Redact: r.redact, Observers: []Observer{r}, Encode: func(rep pipeline.Report) json.RawMessage {
		text, err := json.Marshal(rep)
		require.NoError(r.t, err)
		return text
	}})
	r.d.ctx = ctx
	require.NoError(r.t, j.BreakRuns(ctx, "killed"))
	require.NoError(r.t, r.d.define(all))
}

func (r *rig) stop() {
	r.t.Helper()
	r.cancel()
	r.d.all.Wait()
	require.NoError(r.t, r.j.Close())
}

func (r *rig) slots(name string) []state.SlotRecord {
	r.t.Helper()
	all, err := r.j.Slots(context.Background(), name, 10_000)
	require.NoError(r.t, err)
	slices.Reverse(all)
	return all
}

// told returns each slot as its hour, its state and the beginning of its reason.
func told(all []state.SlotRecord) []string {
	var words []string
	for _, s := range all {
		words = append(words, fmt.Sprintf("%s %s %s%s", s.Due.Format("15:04"), s.State, s.Status, s.Why))
	}
	return words
}

func seen[T Notice](r *rig) []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []T
	for _, n := range r.notices {
		if one, ok := n.(T); ok {
			all = append(all, one)
		}
	}
	return all
}
