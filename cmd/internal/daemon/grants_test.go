package daemon

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/extract/wire"
)

// A state database that does not respond must not delay the exit of the daemon. Each check has a time limit.
func TestWatchGrantsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var bounded bool
		s := &Signals{log: slog.New(slog.DiscardHandler), grantsOf: func(ctx context.Context, _ *config.Config) (serve.GrantsSeen, error) {
			_, bounded = ctx.Deadline()
			time.Sleep(time.Hour) // behave like a read without a context
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

// If several sign-ins of a source cannot be read, the source is still reported only once as unread.
func TestUnreadGrantsAreReportedOnce(t *testing.T) {
	dir := t.TempDir()
	o := &open.Opener{File: filepath.Join(dir, "pipelines.yaml"), Log: slog.New(slog.DiscardHandler), Kinds: []open.Kind{{Scheme: "parquet"}}}
	t.Cleanup(func() { require.NoError(t, o.Close()) })
	require.NoError(t, os.WriteFile(o.File, []byte(`version: 1
sources:
  main:
    v2: {base_url: "https://api.example.com", auth: {oauth: {client_id: c, authorize_url: "https://auth.example.com/authorize", token_url: "https://auth.example.com/token"}}}
    app: {base_url: "https://app.example.com", auth: {login: {email: c@b.test, password: hush}}}
destinations: {lake: "parquet:lake"}
pipelines: {all: {from: main, to: lake}}
state: `+dir+`/state
`), 0o600))
	c, err := o.Load()
	require.NoError(t, err)
	seen, err := grantsOf(t.Context(), o, c)
	require.NoError(t, err)
	require.Len(t, seen.Grants, 2)
	require.Empty(t, seen.Unread)

	stored := 0
	all, err := o.SignIns(c, "main")
	require.NoError(t, err)
	for _, in := range all {
		st, err := in.Credential.(wire.Keeper).State()
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(st.Where), 0o700))
		require.NoError(t, os.WriteFile(st.Where, []byte("not a token"), 0o600))
		stored++
	}
	require.Equal(t, 2, stored)
	seen, err = grantsOf(t.Context(), o, c)
	require.ErrorContains(t, err, "read credential")
	require.Empty(t, seen.Grants)
	require.Equal(t, []string{"main"}, seen.Unread)
}
