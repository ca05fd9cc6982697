package pipeline

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/cursor"
	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// A stream whose commit waits for others gives its worker slot back, and does not take one again before it has returned
// its bytes of the budget. Otherwise it would wait for a stream that has the slot and waits for these bytes.
// Invariants 6, 15
func TestSettledStreamsReturnTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lists, streams := map[string]*sourcetest.List{}, []schemas.Stream{}
		for i := range 6 {
			name := fmt.Sprintf("users_log%d", i)
			lists[name] = &sourcetest.List{Records: sourcetest.Records(0, 5), Size: 10, Total: true}
			streams = append(streams, sourcetest.Stream(name))
		}
		r := newRig(t, lists, streams...)
		r.config.limits, r.config.Workers, r.config.ByteBudget = limits{}, 1, 1
		r.must(StatusComplete)
		r.restart(nil)
		rep := r.must(StatusComplete)
		require.Len(t, rep.Streams, len(streams))
		for _, s := range rep.Streams {
			require.EqualValues(t, 5, s.Counts.Unchanged, s.Stream)
		}
	})
}

// unanswering is a destination that does not answer when streams are settled.
type unanswering struct{ *loadtest.Memory }

// Settle implements [load.Surveyor].
func (u unanswering) Settle(ctx context.Context, all []load.Settlement) []error {
	<-ctx.Done()
	errs := make([]error, len(all))
	for i := range errs {
		errs[i] = ctx.Err()
	}
	return errs
}

// If one of two destinations does not answer, its commit ends after the patience of the other. The stream then makes a
// pass for this destination only, which commits rows in the usual way. Invariant 15
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

// If another process moves the cursor after the survey, the stream begins again from the new cursor.
func TestCursorMovesAfterTheSurvey(t *testing.T) {
	l := &sourcetest.List{Records: sourcetest.Records(0, 5), Size: 10, Total: true}
	r := newRig(t, map[string]*sourcetest.List{"crm_leads": l}, sourcetest.Stream("crm_leads"))
	r.config.limits = limits{}
	r.must(StatusComplete)
	key, moved := state.Key{Pipeline: "nightly", Stream: "crm_leads"}, 0
	l.Wait = func(ctx context.Context, _ int) {
		if moved++; moved > 1 {
			return
		}
		at, err := r.memory.Cursor(ctx, key)
		require.NoError(t, err)
		pos, err := cursor.Decode(at)
		require.NoError(t, err)
		pos.TouchedBy = "webhook"
		tx, err := r.memory.Begin(ctx, key, at, load.Pass{Run: "zzzzzzzzzzzz", Whole: true})
		require.NoError(t, err)
		require.NoError(t, tx.Commit(ctx, pos.Encode()))
	}
	rep := r.must(StatusComplete)
	require.EqualValues(t, 5, rep.Streams[0].Counts.Unchanged)
	require.Equal(t, 2, moved, "the stream is read again")
}

// A stream whose commit failed is read again for the destination. Its child streams still wait for the other destination.
func TestFailedSettlementIsNoSecondDestination(t *testing.T) {
	ended := 0
	s := newSettleQueue(t.Context(), 1).slot(t.Context(), func() { ended++ })
	defer s.leave()
	s.finish("a", 2)
	s.unfinish("a")
	s.finish("a", 2)
	require.Zero(t, ended)
	s.finish("b", 2)
	require.Equal(t, 1, ended)
}
