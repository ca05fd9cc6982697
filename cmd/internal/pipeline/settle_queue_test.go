package pipeline

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/schemas"
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
