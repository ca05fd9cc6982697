package pipeline

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
)

// newPair returns a pipeline of many streams into two destinations. The second destination calls the given function
// before each operation.
func newPair(t *testing.T, at func(op string) error) *rig {
	lists := map[string]*sourcetest.List{}
	var streams []schemas.Stream
	for i := range 20 {
		name := fmt.Sprintf("crm_list%d", i)
		lists[name] = &sourcetest.List{Records: sourcetest.Records(0, 5), Size: 10, Total: true}
		streams = append(streams, sourcetest.Stream(name))
	}
	r := newRig(t, lists, streams...)
	r.config.Workers = 1
	r.config.Destinations = []Destination{{"there", r.memory}, {"gone", &flaky{loadtest.NewMemory(nil), at}}}
	return r
}

// After some streams, a destination that cannot be reached is not tried again for the remaining streams.
func TestUnreachableDestinationDelaysFewStreams(t *testing.T) {
	gone := errors.New("connection refused")
	asked := 0
	r := newPair(t, func(op string) error {
		if op != "cursor" {
			return nil
		}
		if asked++; asked <= 5 {
			return nil
		}
		return gone
	})
	rep, err := r.run(t.Context())
	require.NoError(t, err)
	require.Equal(t, 75, rep.ExitCode())
	require.Equal(t, 5+absences, asked)
	lagging := 0
	for _, s := range rep.Streams {
		if s.Destination == "there" || s.Status == StatusComplete {
			require.Equal(t, StatusComplete, s.Status, s.Stream)
			continue
		}
		lagging++
		require.Equal(t, StatusLagging, s.Status)
		require.ErrorIs(t, s.Err, gone)
		require.ErrorContains(t, s.Err, s.Stream+" to gone: ")
	}
	require.Equal(t, 15, lagging)
}

func TestRecoveringDestinationIsNotLeftOut(t *testing.T) {
	asked := 0
	r := newPair(t, func(op string) error {
		if op != "cursor" {
			return nil
		}
		if asked++; asked%absences == 0 {
			return nil
		}
		return errors.New("connection refused")
	})
	_, err := r.run(t.Context())
	require.NoError(t, err)
	require.Equal(t, 20, asked)
}
