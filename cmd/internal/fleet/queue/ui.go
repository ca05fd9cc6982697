package queue

import (
	"context"
	"fmt"
	"net/http"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"riverqueue.com/riverui"
)

// UI returns the pages of River UI, which show the jobs of the queues, below the path prefix. The pages have caches,
// which are refreshed until ctx ends. The pages also accept requests that change jobs. The caller must refuse these
// requests: a unit must be cancelled in the state, not only in the queue.
func UI(ctx context.Context, pool *pgxpool.Pool, schema, prefix string) (http.Handler, error) {
	c, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Schema: schema, Logger: quiet})
	if err != nil {
		return nil, fmt.Errorf("open the pages of the queue: %w", err)
	}
	h, err := riverui.NewHandler(&riverui.HandlerOpts{Endpoints: riverui.NewEndpoints(c, nil), Logger: quiet, Prefix: prefix})
	if err != nil {
		return nil, fmt.Errorf("open the pages of the queue: %w", err)
	}
	if err := h.Start(ctx); err != nil {
		return nil, fmt.Errorf("open the pages of the queue: %w", err)
	}
	return h, nil
}
