// Package statetest has the tests that every [state.Store] must pass. Each implementation calls [Run] from one of its
// tests. If one implementation has a bug, add a test for it here, so that it runs for all implementations.
package statetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

// Rig creates the stores under test.
type Rig struct {
	// Fresh creates a new state for one test. It returns a function that opens this state. Each call opens the state in
	// the same way as another process would. The test closes the stores.
	Fresh func(t *testing.T) (open func() state.Store)
	// Shared is set if several processes can have the inbox and the journal open at the same time.
	Shared bool
}

// Run runs the suite.
func Run(t *testing.T, r Rig) {
	for name, test := range map[string]func(*testing.T, Rig, func() state.Store){
		"inbox keeps what is appended":                inboxAppend,
		"inbox knows repetitions":                     inboxRepetitions,
		"inbox is in order with many senders":         inboxManyAtOnce,
		"inbox has a quota":                           inboxQuota,
		"inbox quarantines events":                    inboxDeadLetters,
		"inbox keeps captures apart":                  inboxCaptures,
		"inbox agrees with a model":                   inboxModel,
		"inbox returns few bytes at once":             inboxBytes,
		"inbox is shared in order":                    inboxShared,
		"journal has each slot once":                  journalSlots,
		"journal has each slot once among many":       journalSlotsShared,
		"journal hands over slots of dead processes":  journalOrphans,
		"journal has one run of a pipeline at a time": journalOverlap,
		"journal begins one of many runs":             journalBeginRace,
		"journal is read by others":                   journalRead,
		"journal pauses":                              journalPause,
		"journal keeps runs":                          journalRuns,
		"journal is bounded":                          journalBounded,
		"journal keeps an audit log":                  journalAudit,
		"units are claimed by source":                 unitsClaim,
		"units are claimed once among many":           unitsClaimRace,
		"units are taken over":                        unitsTakenOver,
		"units that kill their worker fail":           unitsBroken,
		"units park and are cancelled":                unitsParkAndCancel,
		"units are forgotten":                         unitsForgotten,
		"units are forgotten when there are many":     unitsForgottenMany,
		"sources are paused for all":                  sourcesPause,
		"sources have a record each":                  sourcesRecords,
		"thousands of sources":                        sourcesMany,
		"lease has one holder":                        leases,
		"notes compare and swap":                      notes,
		"vault keeps secrets":                         vault,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, r, r.Fresh(t))
		})
	}
}

func opened(t *testing.T, open func() state.Store) state.Store {
	t.Helper()
	s := open()
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func inboxOf(t *testing.T, s state.Store, o state.InboxOptions) state.Inbox {
	t.Helper()
	b, err := s.OpenInbox(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

func journalOf(t *testing.T, s state.Store) state.Journal {
	t.Helper()
	j, err := s.OpenJournal(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, j.Close()) })
	return j
}
