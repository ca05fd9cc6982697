package execute

import (
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/after"
	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/extract/wire"
	"github.com/penstock-data/penstock/state"
)

// Commands that were all successful do not run again for the same run, and a process that cannot run them replaces no
// results.
func TestCommandsRunOnce(t *testing.T) {
	t.Parallel()
	ctx, dir := t.Context(), t.TempDir()
	x := &Executor{Open: &open.Opener{File: filepath.Join(dir, "pipelines.yaml"), Log: slog.New(slog.DiscardHandler)}, Redactor: wire.NewRedactor()}
	words := []string{"no-such-program"}
	r := Run{Conf: &config.Config{State: config.State{Dir: filepath.Join(dir, "state")}}, Pipeline: config.Pipeline{Name: "nightly", After: []config.Command{{Words: words, Timeout: time.Millisecond}}}}
	s := x.Open.State(r.Conf)
	results := func(run string) []pipeline.Command {
		all, err := after.Read(ctx, s.Notes(), "nightly")
		require.NoError(t, err)
		for _, one := range all {
			if one.Run == run {
				return one.Commands
			}
		}
		return nil
	}
	good := after.Results{Run: "r1", Commands: []pipeline.Command{{Words: words, Result: pipeline.CommandOK}}}
	require.NoError(t, after.Keep(ctx, s.Notes(), "nightly", good))
	all, err := x.runCommands(ctx, r, "r1")
	require.NoError(t, err)
	require.Equal(t, good.Commands, all)

	_, err = x.runCommands(ctx, r, "r2")
	require.Error(t, err)
	require.Equal(t, pipeline.CommandFailed, results("r2")[0].Result)

	lease, err := open.LockPipeline(ctx, s, "nightly"+afterLease)
	require.NoError(t, err)
	for _, run := range []string{"r1", "r3"} {
		_, err = x.runCommands(ctx, r, run)
		require.ErrorIs(t, err, state.ErrLocked)
	}
	require.Equal(t, good.Commands, results("r1"))
	require.Contains(t, results("r3")[0].Error, "not run: ")
	require.NoError(t, lease.Release())
}

// A paused source has no units.
func TestAllPlanned(t *testing.T) {
	t.Parallel()
	p := config.Pipeline{MultiSource: true, From: []config.Ref{{Text: "a"}, {Text: "b"}}}
	require.True(t, allPlanned(p, []state.Unit{{Source: "b"}, {Source: "a"}, {Source: "a"}}))
	require.False(t, allPlanned(p, []state.Unit{{Source: "b"}}))
	require.False(t, allPlanned(p, nil))
	p = config.Pipeline{From: []config.Ref{{Text: "a"}}}
	require.True(t, allPlanned(p, []state.Unit{{}}))
	require.False(t, allPlanned(p, nil))
}
