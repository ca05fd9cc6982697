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
// reading some minutes later, run it again. The failure of a command is used for some seconds.
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
		require.Equal(t, 1, runs(), "reading %d", n)
	}
	_, err := o.Load()
	require.ErrorContains(t, err, "exit status 1")
	require.Equal(t, 2, runs(), "the reading for a run does not use the failure")
	kept := o.outputs.of([]string{dir + "/path"})
	kept.failedAt = kept.failedAt.Add(-failureTime)
	write("echo " + dir + "/w.db\n")
	for range 5 {
		c, err := o.LoadDestinations()
		require.NoError(t, err)
		require.Equal(t, "sqlite:"+dir+"/w.db", c.Destinations[0].URL.Reveal())
		require.Equal(t, 3, runs())
	}
	_, err = o.Load()
	require.NoError(t, err)
	require.Equal(t, 4, runs())
	_, err = o.LoadDestinations()
	require.NoError(t, err)
	require.Equal(t, 4, runs(), "the output of the reading for a run is used")
	kept.at = time.Now().Add(-outputTime)
	_, err = o.LoadDestinations()
	require.NoError(t, err)
	require.Equal(t, 5, runs())
}

// While the command of a secret does not end, several readers wait for one command, and get its failure. A reading for a
// run does not wait for them.
func TestCommandsOfReadersThatHang(t *testing.T) {
	dir := t.TempDir()
	o := &Opener{File: filepath.Join(dir, "pipelines.yaml")}
	require.NoError(t, os.WriteFile(o.File, nil, 0o600))
	argv := []string{filepath.Join(dir, "secret")}
	script := "#!/bin/sh\necho run >>" + dir + "/runs\nwhile ! test -e " + dir + "/end; do sleep 0.01; done\nexit 3\n"
	require.NoError(t, os.WriteFile(argv[0], []byte(script), 0o700))
	errs := make(chan error)
	read := func() {
		_, err := o.recalled(argv)
		errs <- err
	}
	go read()
	require.Eventually(t, func() bool {
		_, err := os.Stat(dir + "/runs")
		return err == nil
	}, time.Minute, time.Millisecond)
	require.NoError(t, os.Rename(argv[0], argv[0]+".old")) // sh still reads the old file
	require.NoError(t, os.WriteFile(argv[0], []byte("#!/bin/sh\necho good\n"), 0o700))
	text, err := o.printed(argv)
	require.NoError(t, err)
	require.Equal(t, "good\n", text)
	kept := o.outputs.of(argv)
	kept.mu.Lock()
	kept.at = time.Time{} // as if this were long ago
	kept.mu.Unlock()
	for range 3 {
		go read()
	}
	require.NoError(t, os.Rename(argv[0]+".old", argv[0]))
	require.NoError(t, os.WriteFile(dir+"/end", nil, 0o600))
	for range 4 {
		require.ErrorContains(t, <-errs, "exit status 3")
	}
	ran, err := os.ReadFile(dir + "/runs")
	require.NoError(t, err)
	require.Equal(t, "run\n", string(ran))
}
