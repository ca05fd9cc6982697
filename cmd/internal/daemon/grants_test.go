package daemon

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/serve"
)

// A state database that does not respond does not delay the exit of the daemon. Each check has a deadline.
func TestWatchGrantsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bounded bool
		s := &Signals{log: slog.New(slog.DiscardHandler), grantsOf: func(ctx context.Context, _ *config.Config) (serve.GrantsSeen, error) {
			_, bounded = ctx.Deadline()
			time.Sleep(time.Hour) // like a read that takes no context
			return serve.GrantsSeen{}, nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		began := time.Now()
		s.watchGrants(ctx)
		require.Equal(t, 5*time.Second, time.Since(began))
		time.Sleep(2 * time.Hour)
		require.True(t, bounded)
	})
}
