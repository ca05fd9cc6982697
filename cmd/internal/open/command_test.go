package open

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Many readings of the configuration for readers run the command of a destination once. A reading for a run, and a
// reading some minutes later, run it again. A command that fails runs again each time.
func TestCommandsOfReaders(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "pipelines.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`version: 1
sources: {main: {app: {base_url: "https://app.example", auth: {token: t}}}}
destinations: {warehouse: "sqlite:${cmd:`+dir+`/path}"}
pipelines: {nightly: {from: main, to: warehouse, streams: [crm.leads]}}
`), 0o600))
	write := func(script string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "path"), []byte("#!/bin/sh\necho run >>"+dir+"/runs\n"+script), 0o700))
	}
	write("exit 1\n")
	o := &Opener{File: file, Kinds: []Kind{{Scheme: "sqlite"}}}
	runs := func() int {
		text, err := os.ReadFile(filepath.Join(dir, "runs"))
		require.NoError(t, err)
		return strings.Count(string(text), "run")
	}
	for n := range 2 {
		_, err := o.LoadDestinations()
		require.ErrorContains(t, err, "exit status 1")
		require.Equal(t, n+1, runs())
	}
	write("echo " + dir + "/w.db\n")
	for range 5 {
		c, err := o.LoadDestinations()
		require.NoError(t, err)
		require.Equal(t, "sqlite:"+dir+"/w.db", c.Destinations[0].URL.Reveal())
		require.Equal(t, 3, runs())
	}
	_, err := o.Load()
	require.NoError(t, err)
	require.Equal(t, 4, runs())
	_, err = o.LoadDestinations()
	require.NoError(t, err)
	require.Equal(t, 4, runs(), "the output of the reading for a run is used")
	o.outputs.of([]string{dir + "/path"}).at = time.Now().Add(-outputTime)
	_, err = o.LoadDestinations()
	require.NoError(t, err)
	require.Equal(t, 5, runs())
}
