//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRestart(t *testing.T) {
	s := Start(t)
	s.Exec("CREATE TABLE kept AS SELECT 1 AS n; CHECKPOINT")
	for _, immediate := range []bool{false, true} {
		s.Restart(immediate)
		require.Equal(t, "1", s.Text("SELECT count(*) FROM kept"))
	}
	s.Stop()
	s.Stop()
	s.Resume()
	require.Equal(t, "1", s.Text("SELECT n FROM kept"))
}

func TestRemoveAbandoned(t *testing.T) {
	killed := exec.Command("true")
	require.NoError(t, killed.Run())
	old := time.Now().Add(-2 * time.Hour)
	leave := func(pid int, made time.Time) string {
		dir, err := os.MkdirTemp(parent(), fmt.Sprintf(folderPrefix+"%d-", pid))
		require.NoError(t, err)
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		require.NoError(t, os.WriteFile(filepath.Join(dir, "log"), nil, 0o600))
		require.NoError(t, os.Chtimes(dir, made, made))
		return dir
	}
	abandoned, recent, used := leave(killed.Process.Pid, old), leave(killed.Process.Pid, time.Now()), leave(os.Getpid(), old)
	removeAbandoned()
	require.NoDirExists(t, abandoned)
	require.DirExists(t, recent)
	require.DirExists(t, used)
}
