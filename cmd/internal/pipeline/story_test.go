package pipeline

import (
	"errors"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline/sourcetest"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/schemas"
)

// story runs a pipeline with two destinations that fail from time to time, while parents change, disappear and
// return.
type story struct {
	*estate
	random  *rand.Rand
	stores  [2]*loadtest.Memory
	mode    schemas.Mode
	version int
}

func newStory(t *testing.T, seed uint64) *story {
	s := &story{estate: newEstate(t, 60), random: rand.New(rand.NewPCG(seed, 16))}
	s.stores = [2]*loadtest.Memory{loadtest.NewMemory(nil), loadtest.NewMemory(nil)}
	s.mode = []schemas.Mode{schemas.Merge, schemas.History, schemas.Append}[seed%3]
	s.version = 1
	s.reread = 1000
	s.config.limits = defaultLimits
	s.config.limits.groupRows, s.config.limits.batchRows = 5, 5
	s.config.Streams = s.streams()
	s.config.Streams[1].Table.Mode = s.mode
	return s
}

func (s *story) change() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range s.random.IntN(12) {
		id := 1 + s.random.IntN(60)
		s.version++
		switch s.random.IntN(6) {
		case 0:
			delete(s.parents, id)
		case 1:
			s.absent[id] = !s.absent[id]
			s.parents[id] = s.version
		default:
			s.parents[id] = s.version
			s.secret[id] = s.random.IntN(4)
		}
	}
}

func failing(random *rand.Rand, quiet bool, stores ...*loadtest.Memory) (all []Destination) {
	for i, store := range stores {
		left := 1 << 30
		if !quiet && random.IntN(3) == 0 {
			left = random.IntN(150)
		}
		var mu sync.Mutex
		all = append(all, Destination{Name: "d" + strconv.Itoa(i), Destination: store.Reopen(func(string) error {
			mu.Lock()
			defer mu.Unlock()
			if left--; left < 0 && left > -3 {
				return errors.New("connection reset")
			}
			return nil
		})})
	}
	return all
}

func (s *story) once(quiet bool) {
	s.config.Destinations = failing(s.random, quiet, s.stores[:]...)
	budget := -1
	if !quiet && s.random.IntN(3) == 0 {
		budget = s.random.IntN(40)
	}
	s.allow(budget)
	_, err := s.try(Options{ConfirmShrink: true})
	require.True(s.t, err == nil || !quiet, "%v", err)
	s.allow(-1)
}

func (s *story) allow(requests int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.budget = requests
}

// standingRows returns the live rows by id. Two rows must not have the same id, except in mode append, where the
// later row counts.
func standingRows(t *testing.T, store *loadtest.Memory, mode schemas.Mode, table, column string) map[string]string {
	out, at := map[string]string{}, map[string]string{}
	for _, row := range store.Rows(table) {
		_, dead := row[schemas.ColDeletedAt]
		if dead || mode == schemas.History && !current(row) {
			continue
		}
		_, twice := out[row["id"]]
		require.False(t, twice && mode != schemas.Append, "two live rows for %s", row["id"])
		if row[schemas.ColRun] >= at[row["id"]] {
			out[row["id"]], at[row["id"]] = row[column], row[schemas.ColRun]
		}
	}
	return out
}

func TestAllRequestedParentsAreGone(t *testing.T) {
	e := newEstate(t, 60)
	e.reread = 1000
	e.complete(Options{})
	for id := 11; id <= 30; id++ {
		e.absent[id] = true
		e.parents[id]++
	}
	for run := range 3 {
		n, child := e.complete(Options{})
		require.Equal(t, Proven, child.Verdict)
		require.Less(t, n, 30)
		require.EqualValues(t, []int{20, 0, 0}[run], child.Counts.Deleted)
		require.Len(t, e.rows("x_detail", "secret"), 40)
	}
}

// After random runs that fail in many ways, and two runs that do not fail, both destinations equal the source.
func TestRandomParentRuns(t *testing.T) {
	for seed := range uint64(sourcetest.Trials(30)) {
		s := newStory(t, seed)
		s.once(seed%2 == 0)
		for range 8 {
			s.change()
			s.once(false)
		}
		s.once(true)
		s.once(true)
		want := map[string]string{}
		for id := range s.parents {
			if !s.absent[id] {
				want[strconv.Itoa(id)] = strconv.Itoa(s.secret[id])
			}
		}
		for i, store := range s.stores {
			have := standingRows(t, store, s.mode, "x_detail", "secret")
			if s.mode == schemas.Append {
				for id := range have {
					if _, ok := want[id]; !ok {
						delete(have, id)
					}
				}
			}
			require.Equal(t, want, have, "seed %d, %s, destination %d", seed, s.mode, i)
		}
	}
}

// After the last change, a whole pass finds nothing to correct. Rarely, it corrects a change that two passes missed.
func TestRandomIncrementalRuns(t *testing.T) {
	stories, slipped := sourcetest.Trials(12), 0
	for seed := range stories {
		m := &moving{random: rand.New(rand.NewPCG(uint64(seed), 17)), clock: time.Now().UTC().Truncate(time.Second), size: 7, newest: seed%2 == 1}
		for range 100 {
			m.change()
		}
		i := schemas.Incremental{Field: "updated_at", Format: schemas.MomentRFC3339, Lookback: time.Second}
		if !m.newest {
			i.Param = "updated_since"
		}
		r := newMoving(t, m, i)
		mode := []schemas.Mode{schemas.Merge, schemas.History, schemas.Append}[seed%3]
		r.config.Streams[0].Table.Mode = mode
		r.config.limits = defaultLimits
		r.config.limits.groupRows, r.config.limits.batchRows = 10, 10
		random := rand.New(rand.NewPCG(uint64(seed), 18))
		stores := [2]*loadtest.Memory{loadtest.NewMemory(nil), loadtest.NewMemory(nil)}
		for run := range 9 {
			quiet := run == 0 || run > 6
			rate := 0
			if !quiet {
				rate = random.IntN(3)
			}
			m.pace(rate, 2*time.Second)
			r.config.Destinations = failing(random, quiet, stores[:]...)
			_, err := r.run(t.Context())
			require.True(t, err == nil || !quiet, "%v", err)
		}
		for at, store := range stores {
			if have := standingRows(t, store, mode, "items", "name"); !maps.Equal(have, m.truth()) {
				slipped++
				t.Logf("seed %d, %s, destination %d: a change was missed", seed, mode, at)
			}
		}
		r.config.Options.Full = true
		_, err := r.run(t.Context())
		require.NoError(t, err)
		for at, store := range stores {
			require.Equal(t, m.truth(), standingRows(t, store, mode, "items", "name"), "seed %d, %s, destination %d", seed, mode, at)
		}
	}
	require.LessOrEqual(t, slipped*100, 2*stories, "in more than 1 %% of the seeds")
}
