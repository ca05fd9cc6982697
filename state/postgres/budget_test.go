//go:build unix

package postgres

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/extract/wire/budget"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
)

var _ budget.Ledger = (*Store)(nil)

// Workers with separate stores use one budget. Together, they never send more requests per second than allowed.
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

func budgetShared(t *testing.T, workers int, spent time.Duration) {
	const limit = 100
	var mu sync.Mutex
	var arrivals []time.Time
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		arrivals = append(arrivals, time.Now())
		mu.Unlock()
		time.Sleep(200 * time.Millisecond)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"data":[]}`))
	}))
	defer server.Close()
	url := in(t, pgtest.Start(t, "fsync=on").URL())
	var asked atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(spent)
	for range workers {
		s := New(Options{URL: url})
		defer s.Close()
		g := budget.New(budget.Plan{Rate: budget.Rate{Limit: limit, Window: time.Second}})
		require.NoError(t, g.ShareLedger(t.Context(), counting{s, &asked}, budget.Name("sk_live_of_a_customer")))
		c, err := wire.New(wire.Options{BaseURL: server.URL, Allow: []wire.Route{{Method: "GET", Path: "/v2/contacts"}}, Governor: g})
		require.NoError(t, err)
		var readers sync.WaitGroup
		for range 48 / workers {
			readers.Go(func() {
				for time.Now().Before(end) {
					resp, err := c.Read(t.Context(), wire.Request{Path: "/v2/contacts"})
					require.NoError(t, err)
					resp.Release()
				}
			})
		}
		wg.Go(func() {
			readers.Wait()
			require.NoError(t, c.Close())
			require.NoError(t, g.Close())
		})
	}
	wg.Wait()
	most, from, used := 0, 0, 0
	for i, at := range arrivals {
		for at.Sub(arrivals[from]) >= time.Second {
			from++
		}
		most = max(most, i-from+1)
		if since := at.Sub(arrivals[0]); since >= 12*time.Second && since < 22*time.Second {
			used++
		}
	}
	t.Logf("%d requests, %d exchanges, most %d in a second, used %.1f%%", len(arrivals), asked.Load(), most, float64(used)/(10*limit)*100)
	require.LessOrEqual(t, most, limit)
}

type counting struct {
	*Store
	n *atomic.Int64
}

func (c counting) ChangeBudget(ctx context.Context, name string, change func(time.Time, []byte) ([]byte, error)) error {
	c.n.Add(1)
	return c.Store.ChangeBudget(ctx, name, change)
}
