package fleet

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

func reported(id int64, s state.UnitState, status pipeline.Status) state.Unit {
	name := fmt.Sprint("s", id)
	return state.Unit{ID: id, Part: name, State: s, Worker: "w", Report: fmt.Appendf(nil, `{"status":%q,"requests":3,"streams":[{"stream":%q,"status":%[1]q}]}`, status, name)}
}

func TestLast(t *testing.T) {
	for name, c := range map[string]struct {
		u           state.Unit
		want, again state.UnitState
	}{
		"done":               {reported(1, state.UnitDone, pipeline.StatusComplete), state.UnitDone, state.UnitDone},
		"stopped":            {reported(1, state.UnitWaiting, pipeline.StatusStopped), state.UnitCancelled, state.UnitWaiting},
		"parked":             {reported(1, state.UnitParked, pipeline.StatusParked), state.UnitDone, state.UnitDone},
		"waits for a retry":  {reported(1, state.UnitWaiting, pipeline.StatusFailed), state.UnitFailed, state.UnitFailed},
		"failed permanently": {reported(1, state.UnitFailed, pipeline.StatusFailed), state.UnitFailed, state.UnitFailed},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, EndLastAttempt([]state.Unit{c.u}, false)[0].State)
			require.Equal(t, c.again, EndLastAttempt([]state.Unit{c.u}, true)[0].State)
		})
	}
}

// Invariant 14
func TestWithBefore(t *testing.T) {
	last := pipeline.Report{Status: pipeline.StatusComplete, Requests: 5, Streams: []pipeline.StreamReport{{Stream: "s3", Status: pipeline.StatusComplete}}}
	done, failed, mine := reported(1, state.UnitDone, pipeline.StatusComplete), reported(2, state.UnitFailed, pipeline.StatusFailed), reported(3, state.UnitDone, pipeline.StatusComplete)
	r := WithEarlierAttempts(last, "w", []state.Unit{done, mine}, []state.Unit{mine})
	require.Equal(t, pipeline.StatusComplete, r.Status)
	require.Equal(t, 8, r.Requests)
	require.Len(t, r.Streams, 2)
	require.Len(t, WithEarlierAttempts(last, "another", []state.Unit{done, mine}, []state.Unit{mine}).Streams, 1, "attempts of another worker, which was killed, are not added")
	r = WithEarlierAttempts(last, "w", []state.Unit{done, failed, mine}, []state.Unit{mine})
	require.Equal(t, pipeline.StatusPartial, r.Status, "a stream of an earlier attempt failed")
	require.Len(t, r.Streams, 3)
}
