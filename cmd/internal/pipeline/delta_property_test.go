package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/state"
)

// errKilled is what a process meets that is killed.
var errKilled = errors.New("killed")

// storm is one story of a source that changes between any two requests, and of
// the events that tell of it: out of order, three times, late, lost, or with an id
// that was used before. Processes are killed at commits.
type storm struct {
	*deltaRig
	random *rand.Rand
	mu     sync.Mutex // one change at a time
	memory *loadtest.Memory
	late   []state.Event // that are not delivered yet
	asked  int           // requests for single records
	quiet  bool          // nothing changes any more
	kill   bool
}

func newStorm(t *testing.T, seed uint64) *storm {
	s := &storm{random: rand.New(&dice{source: rand.NewPCG(seed, 5)})}
	s.memory = loadtest.NewMemory(s.step)
	m := newModel(3 + s.random.IntN(12))
	m.between = s.between
	s.deltaRig = newDeltaRig(t, m, Destination{Name: "warehouse", Destination: s.memory})
	return s
}

// dice are thrown from several goroutines.
type dice struct {
	mu     sync.Mutex
	source rand.Source
}

func (d *dice) Uint64() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.source.Uint64()
}

// step kills the process at some step of some commits.
func (s *storm) step(string) error {
	if s.kill && s.random.IntN(60) == 0 {
		return errKilled
	}
	return nil
}

// between happens before each request.
func (s *storm) between() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quiet {
		return
	}
	for range s.random.IntN(3) {
		e, id := s.model.change(s.random)
		if s.random.IntN(12) > 0 {
			s.late = append(s.late, e)
			continue
		}
		s.model.mu.Lock()
		s.model.lost[id] = true
		s.model.mu.Unlock()
	}
	s.deliver(s.random.IntN(4))
}

// deliver sends some of the events that are late, in any order, and some again.
func (s *storm) deliver(n int) {
	for ; n > 0 && len(s.late) > 0; n-- {
		i := s.random.IntN(len(s.late))
		e := s.late[i]
		if s.random.IntN(3) > 0 {
			s.late = append(s.late[:i], s.late[i+1:]...)
		}
		if s.random.IntN(15) == 0 { // another body under the same id
			e.Conflict = true
			s.model.send(e)
			e.Body = fmt.Appendf(nil, `{"id":%q,"type":%q,"data":{"id":%d,"name":"forged"}}`, e.ID, e.Type, 1+s.random.IntN(s.model.next+1))
		}
		s.model.send(e)
	}
}

// act does one thing that a daemon does.
func (s *storm) act() {
	ctx, cancel := context.WithCancelCause(s.t.Context())
	defer cancel(nil)
	var err error
	var rep DeltaReport
	defer func() { s.asked += rep.Refetches }()
	switch n := s.random.IntN(6); {
	case n == 0:
		_, err = Run(ctx, s.config)
	case n == 1: // both at once
		done := make(chan struct{})
		go func() { defer close(done); _, _ = Run(ctx, s.config) }()
		rep, err = s.deltas.Apply(ctx)
		<-done
	default:
		rep, err = s.deltas.Apply(ctx)
	}
	if err != nil && !errors.Is(err, errKilled) {
		require.NoError(s.t, err)
	}
	if s.random.IntN(5) == 0 { // the next process
		s.memory = s.memory.Reopen(s.step)
		s.config.Destinations[0].Destination = s.memory
		s.config.Turns = &Turns{}
		s.start()
	}
}

// synced reports whether some pass has come to its end.
func (s *storm) synced() bool {
	at, err := s.memory.Cursor(s.t.Context(), s.deltas.key("v2.contacts"))
	require.NoError(s.t, err)
	pos, err := decodePosition(at)
	require.NoError(s.t, err)
	return pos.over() != ""
}

// ledgerIsWhole wants each event once in the table of events.
func (s *storm) ledgerIsWhole() {
	s.t.Helper()
	seen := map[string]int{}
	scan(s.t, s.memory, load.Events.Name, []string{"ordinal"}, func(row []string) { seen[row[0]]++ })
	require.Len(s.t, seen, len(s.model.events))
	for ordinal, n := range seen {
		require.Equal(s.t, 1, n, "event %s", ordinal)
	}
}

// settle lets everything come to rest: what is late comes, changes end.
func (s *storm) settle() {
	s.quiet, s.kill = true, false
	for len(s.late) > 0 {
		s.deliver(len(s.late))
	}
	s.deltas.resting = map[string]*rest{}
	for range 100 {
		rep, err := s.deltas.Apply(s.t.Context())
		require.NoError(s.t, err)
		s.asked += rep.Refetches
		if len(rep.Refresh) > 0 {
			s.sync()
		}
		if rep.Behind == 0 && len(rep.Refresh) == 0 {
			return
		}
	}
	at, _ := s.memory.Cursor(s.t.Context(), s.deltas.key("v2.contacts"))
	s.t.Fatalf("it does not come to rest: %+v, %s", s.deltas.rep, at)
}

// Tables converge to the source's truth by events alone, but for changes of which
// no event has come, and to all of it with the next run.
func TestDeltasConverge(t *testing.T) {
	asked, events, compared := 0, 0, 0
	for seed := range trials(30) {
		t.Run(strconv.Itoa(seed), func(t *testing.T) {
			s := newStorm(t, uint64(seed))
			s.kill = true
			for range 12 {
				s.act()
			}
			s.settle()
			if s.synced() {
				want, got := s.model.truth(), rows(t, s.memory)
				for id := range s.model.lost {
					delete(want, id)
					delete(got, id)
				}
				require.Equal(t, want, got, "by events alone")
				compared++
			}
			require.LessOrEqual(t, s.asked, 3*len(s.model.events))
			asked, events = asked+s.asked, events+len(s.model.events)
			s.sync()
			s.sync()
			s.equal()
			s.ledgerIsWhole()
		})
	}
	t.Logf("%d requests for single records, %d deliveries, %d of the stories compared by events alone", asked, events, compared)
}
