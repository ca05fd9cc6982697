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

// Workers with separate connections to a database use one budget. Together, they never send more requests in a second
// than allowed. They use at least half of the limit, and at least a quarter in the short form, which is soon over. The test looks at the times when requests were sent, by the clock of the database, and not at the
// arrivals at a server. On a busy machine, the time from sending to the arrival varies by up to a second, and the guard
// of a request covers only a part of that. TestFleet checks the arrivals, with delays that the guard covers.
// Invariant 4
func TestBudgetShared(t *testing.T) {
	if testing.Short() {
		budgetShared(t, 4, 4*time.Second, 0.25)
		return
	}
	for _, workers := range []int{1, 4, 16} {
		t.Run(strconv.Itoa(workers), func(t *testing.T) { budgetShared(t, workers, 24*time.Second, 0.5) })
	}
}

func budgetShared(t *testing.T, workers int, span time.Duration, least float64) {
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
	var sent []time.Time
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
					p.Sent()
					mu.Lock()
					sent = append(sent, p.sent.time())
					mu.Unlock()
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
	most := maxInWindow(sent, time.Second)
	used := float64(len(sent)) / (limit * span.Seconds())
	t.Logf("%d requests, used %.0f%%, %d exchanges, most %d in a second", len(sent), 100*used, exchanges.Load(), most)
	require.LessOrEqual(t, most, limit)
	require.GreaterOrEqual(t, used, least, "used share")
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
