// Package statetest has the tests that every [state.Store] must pass. Each implementation calls [Run] from one of its
// tests. If one implementation has a bug, add a test for the bug here. Then the test runs for all implementations.
package statetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

// Rig creates the stores under test.
type Rig struct {
	// Fresh creates a new state for one test. It returns a function that opens this state. Each call of this function
	// opens the state like a separate process. The test closes the stores.
	Fresh func(t *testing.T) (open func() state.Store)
	// Shared is true if several processes can have the inbox and the journal open at the same time.
	Shared bool
}

// Run runs the suite.
func Run(t *testing.T, r Rig) {
	for name, test := range map[string]func(*testing.T, Rig, func() state.Store){
		"inbox keeps what is appended":                    inboxAppend,
		"inbox recognizes repeated events":                inboxRepetitions,
		"inbox is in order with many senders":             inboxManyAtOnce,
		"inbox has a quota":                               inboxQuota,
		"inbox quarantines events":                        inboxDeadLetters,
		"inbox keeps captures apart from events":          inboxCaptures,
		"inbox agrees with a model":                       inboxModel,
		"inbox returns few bytes at once":                 inboxBytes,
		"inbox is read while others append":               inboxShared,
		"journal has each slot once":                      journalSlots,
		"journal has each slot once with many processes":  journalSlotsShared,
		"journal hands over slots of dead processes":      journalOrphans,
		"journal lets no runs of a pipeline overlap":      journalOverlap,
		"journal begins only one run at a time":           journalBeginRace,
		"journal can be read by commands":                 journalRead,
		"journal pauses pipelines":                        journalPause,
		"journal keeps runs":                              journalRuns,
		"journal is bounded":                              journalBounded,
		"journal keeps an audit log":                      journalAudit,
		"units are claimed by source":                     unitsClaim,
		"units are claimed once with many workers":        unitsClaimRace,
		"units of expired claims are taken over":          unitsTakenOver,
		"units that kill their worker fail":               unitsBroken,
		"units park and are cancelled":                    unitsParkAndCancel,
		"units of old runs are deleted":                   unitsForgotten,
		"units of old runs are deleted if there are many": unitsForgottenMany,
		"sources are paused for all processes":            sourcesPause,
		"sources have a record each":                      sourcesRecords,
		"sources that are gone leave no record":           sourcesGone,
		"thousands of sources":                            sourcesMany,
		"history sums runs by hour":                       historyHours,
		"history joins hours to days":                     historyDays,
		"history counts each run once":                    historyShared,
		"lease has one holder":                            leases,
		"notes compare and swap":                          notes,
		"vault keeps secrets":                             vault,
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
