package pipeline

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

// unmoved is a surveyor. The cursors of its streams have not moved since the survey.
type unmoved struct{ load.Surveyor }

func (unmoved) SurveyOf(state.Key) (load.StreamSurvey, bool) { return load.StreamSurvey{}, true }

// A stream that begins again forgets rows of the survey while other streams use them. The race detector and the runtime
// find an access without the lock.
func TestForgetRowsInUse(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := &surveyedDestination{by: unmoved{}, left: map[state.Key]bool{}, until: now.Add(time.Hour), now: func() time.Time { return now }}
	s.ownTables(true)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 1000 {
			s.forget(load.Rejects.Name)
		}
	})
	for range 1000 {
		require.Empty(t, s.parentPrints(state.Key{}, ""))
	}
	wg.Wait()
	require.Nil(t, s.ownOf(load.Rejects.Name))
	require.NotNil(t, s.ownOf(load.Parents.Name))
	s.until = now.Add(-time.Second)
	require.Nil(t, s.ownOf(load.Parents.Name), "the survey is too old")
}
