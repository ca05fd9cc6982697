//go:build unix

package after

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/state"
)

// tracked is a command that writes its id and that of a child process to the file pids, and then takes long.
var tracked = []string{"sh", "-c", "sleep 300 & echo $$ $! >pids.new; mv pids.new pids; wait"}

// TestMain makes this program a supervisor, or the parent process of TestKilledParent.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == Supervisor {
		os.Exit(Supervise(os.Args[2:]))
	}
	if dir := os.Getenv("PENSTOCK_TEST_AFTER"); dir != "" {
		fmt.Println(command(dir, tracked...).Run(context.Background()))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func command(dir string, words ...string) Command {
	return Command{Words: words, Dir: dir, Timeout: time.Minute, Redact: func(s string) string { return strings.ReplaceAll(s, "hush-hush", "[redacted]") }, Now: time.Now}
}

// pids waits until a tracked command runs, and returns the ids of its processes.
func pids(t *testing.T, dir string) (all []int) {
	t.Helper()
	require.Eventually(t, func() bool {
		text, err := os.ReadFile(filepath.Join(dir, "pids"))
		for word := range strings.FieldsSeq(string(text)) {
			pid, err := strconv.Atoi(word)
			require.NoError(t, err)
			all = append(all, pid)
		}
		return err == nil
	}, time.Minute, 10*time.Millisecond)
	require.Len(t, all, 2)
	return all
}

func ended(pid int) bool {
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		return bytes.Contains(stat, []byte(") Z ")) // its parent has not read its exit code yet
	}
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

func requireEnded(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		require.Eventually(t, func() bool { return ended(pid) }, time.Minute, 20*time.Millisecond, "process %d goes on", pid)
	}
}

func TestRun(t *testing.T) {
	t.Setenv("SECRET_OF_SOURCE", "pat_1234")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	c := command(dir, "sh", "-c", "pwd; env; printf '\\033[31mred\\033[0m hush\\033[0m-hush\\n' >&2; test -t 0 && echo terminal; read line || echo no input; exit 3")
	c.Env = map[string]string{"MODELS_TARGET": "prod"}
	r := c.Run(t.Context())
	require.Equal(t, pipeline.CommandFailed, r.Result)
	require.Equal(t, 3, r.ExitCode)
	require.Equal(t, "exit code 3", r.Error)
	require.Contains(t, r.Output, dir+"\n")
	require.Contains(t, r.Output, "MODELS_TARGET=prod")
	require.Contains(t, r.Output, "PATH=")
	require.NotContains(t, r.Output, "pat_1234")
	require.Contains(t, r.Output, "red [redacted]\nno input")

	require.Equal(t, pipeline.CommandOK, command(dir, "true").Run(t.Context()).Result)
	r = command(dir, "no-such-program").Run(t.Context())
	require.Equal(t, `no program "no-such-program" in PATH`, r.Error)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "own"), []byte("#!/bin/sh\necho own\n"), 0o700))
	require.Equal(t, "own", command(dir, "./own").Run(t.Context()).Output, "a relative path is relative to the working folder")
}

// The end of a long output is kept, in whole lines. A secret at the edge of what is kept does not appear in part.
func TestOutputIsBounded(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"a line with hush-hush in it", strings.Repeat("hush-hush", 10), "x"} {
		out := &tail{}
		for i := range 20_000 {
			fmt.Fprintf(out, "%s %d\n", line, i)
		}
		text := out.text(command("").Redact)
		require.LessOrEqual(t, len(text), mostKept)
		require.Greater(t, len(text), mostKept/4)
		for one := range strings.Lines(text) {
			require.Regexp(t, "^"+strings.NewReplacer("hush-hush", `\[redacted\]`).Replace(line)+` \d+\n?$`, one)
		}
		require.True(t, strings.HasSuffix(text, " 19999"))
	}
	out := &tail{}
	_, _ = out.Write(bytes.Repeat([]byte("hush-hush"), 20_000)) // a line without end
	require.Empty(t, out.text(command("").Redact))
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := command(dir, tracked...)
	c.Timeout = 15 * time.Second
	r := c.Run(t.Context())
	require.Equal(t, pipeline.CommandTimeout, r.Result)
	require.Equal(t, "did not end within 15s", r.Error)
	requireEnded(t, pids(t, dir))
}

// A command that ignores SIGTERM is killed soon.
func TestStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan pipeline.Command)
	go func() {
		done <- command(dir, "sh", "-c", "trap '' TERM; "+tracked[2]+"; sleep 300").Run(ctx)
	}()
	all := pids(t, dir)
	began := time.Now()
	cancel()
	require.Equal(t, pipeline.CommandStopped, (<-done).Result)
	require.Less(t, time.Since(began), 20*time.Second)
	requireEnded(t, all)
}

// If penstock is killed, its command ends too, with all child processes.
func TestKilledParent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "PENSTOCK_TEST_AFTER="+dir)
	require.NoError(t, parent.Start())
	all := pids(t, dir)
	for _, pid := range all {
		require.False(t, ended(pid))
	}
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()
	requireEnded(t, all)
}

// If penstock is suspended, its command ends, because another process may run it now.
func TestSuspendedParent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	supervisor := exec.Command(os.Args[0], append([]string{Supervisor, "3s"}, tracked...)...)
	supervisor.Dir = dir
	stdin, err := supervisor.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, supervisor.Start())
	all := pids(t, dir)
	for range 8 { // longer than 3 seconds
		_, err := stdin.Write([]byte{0})
		require.NoError(t, err)
		time.Sleep(beat / 2)
	}
	for _, pid := range all {
		require.False(t, ended(pid))
	}
	requireEnded(t, all) // nothing is written any more
	require.Error(t, supervisor.Wait())
}

// The results of the last runs are kept, within limits. A second result of a run replaces the first.
func TestResults(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	notes := (&state.Folder{Dir: t.TempDir()}).Notes()
	keep := func(run, output string) {
		r := Results{Run: run, Commands: []pipeline.Command{{Words: []string{"dbt", "build"}, Result: pipeline.CommandOK, Output: output}}}
		require.NoError(t, Keep(ctx, notes, "nightly", r))
	}
	for i := range mostRuns + 3 {
		keep(fmt.Sprintf("r%03d", i), "")
	}
	keep("r050", "again")
	all, err := Read(ctx, notes, "nightly")
	require.NoError(t, err)
	require.Len(t, all, mostRuns)
	require.Equal(t, "r003", all[0].Run)
	require.Equal(t, "r050", all[mostRuns-1].Run)
	for i := range 40 {
		keep(fmt.Sprintf("s%03d", i), strings.Repeat("x", mostKept))
	}
	all, err = Read(ctx, notes, "nightly")
	require.NoError(t, err)
	require.Len(t, all, mostRuns, "outputs of old runs are removed first")
	require.Equal(t, "s039", all[len(all)-1].Run)
	require.Len(t, all[len(all)-1].Commands[0].Output, mostKept)
	require.Empty(t, all[len(all)-40].Commands[0].Output)

	failed := Results{Run: "failed", Commands: []pipeline.Command{{Words: []string{"dbt", "build"}, Result: pipeline.CommandFailed}}}
	require.NoError(t, Keep(ctx, notes, "nightly", failed))
	for i := range mostRuns {
		keep(fmt.Sprintf("t%03d", i), "")
	}
	require.NoError(t, KeepFirst(ctx, notes, "nightly", Results{Run: "t099", Commands: failed.Commands}))
	require.NoError(t, KeepFirst(ctx, notes, "nightly", Results{Run: "u000", Commands: failed.Commands}))
	all, err = Read(ctx, notes, "nightly")
	require.NoError(t, err)
	require.Len(t, all, mostRuns)
	require.Equal(t, "failed", all[0].Run, "the result of a failed command is kept longest")
	require.True(t, all[mostRuns-2].Successful(), "KeepFirst replaces nothing")
	require.Equal(t, "u000", all[mostRuns-1].Run)
	none, err := Read(ctx, notes, "hourly")
	require.NoError(t, err)
	require.Empty(t, none)

	require.NoError(t, Keep(ctx, notes, "hourly", failed))
	require.NoError(t, notes.SetNote(ctx, noteName("weekly"), nil, []byte("damaged")))
	every, err := ReadAll(ctx, notes)
	require.ErrorContains(t, err, "note after/weekly.json")
	require.Len(t, every, 2)
	require.Equal(t, all, every["nightly"])
	require.Equal(t, "failed", every["hourly"][0].Run)
}
