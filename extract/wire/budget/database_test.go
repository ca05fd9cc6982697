package budget

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/state/postgres"
)

// Workers with separate connections to a database use one budget. Together, they never get more permits in a second than
// allowed, however busy the machine is. The test looks at the times of the permits, by the clock of the database, and not
// at the arrivals at a server. On a busy machine, the time from a permit to the arrival varies by up to a second, and the
// guard of a request covers only a part of that. TestFleet checks the arrivals, with delays that the guard covers.
// Invariant 4
func TestBudgetShared(t *testing.T) {
	if testing.Short() {
		budgetShared(t, 4, 4*time.Second)
		return
	}
	for _, workers := range []int{1, 4, 16} {
		t.Run(strconv.Itoa(workers), func(t *testing.T) { budgetShared(t, workers, 24*time.Second) })
	}
}

func budgetShared(t *testing.T, workers int, span time.Duration) {
	const limit = 100
	url := pgtest.Start(t, "fsync=on").URL() + "&search_path=shared"
	open := func() *postgres.Store {
		s := postgres.New(postgres.Options{URL: url})
		t.Cleanup(func() { require.NoError(t, s.Close()) })
		return s
	}
	_, _, err := open().Migrate(t.Context())
	require.NoError(t, err)
	var exchanges atomic.Int64
	var mu sync.Mutex
	var permits []time.Time
	var wg sync.WaitGroup
	end := time.Now().Add(span)
	for range workers {
		g := New(Plan{Rate: Rate{limit, time.Second}})
		require.NoError(t, g.ShareLedger(t.Context(), counting{open(), &exchanges}, Name(account)))
		var callers sync.WaitGroup
		for range 48 / workers {
			callers.Go(func() {
				for time.Now().Before(end) {
					p, err := g.Take(t.Context(), time.Minute)
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					permits = append(permits, p.taken.time())
					mu.Unlock()
					p.Sent()
					time.Sleep(200 * time.Millisecond)
					p.Answered(&http.Response{StatusCode: http.StatusOK})
					p.Done()
				}
			})
		}
		wg.Go(func() {
			callers.Wait()
			_ = g.Close() // on a busy machine, it may give up; then the unused grants count for longer
		})
	}
	wg.Wait()
	most := maxInWindow(permits, time.Second)
	t.Logf("%d permits, %d exchanges, most %d in a second", len(permits), exchanges.Load(), most)
	require.LessOrEqual(t, most, limit)
	require.Greater(t, len(permits), limit)
}

// counting counts the exchanges with a ledger.
type counting struct {
	Ledger
	n *atomic.Int64
}

func (c counting) ChangeBudget(ctx context.Context, name string, update func(time.Time, []byte) ([]byte, error)) error {
	c.n.Add(1)
	return c.Ledger.ChangeBudget(ctx, name, update)
}
