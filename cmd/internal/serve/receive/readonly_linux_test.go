package receive

import (
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// While the file system is read-only, senders get only 503. strace injects the errors: a file system cannot be
// made read-only while a file is open for writing.
func TestReadOnly(t *testing.T) {
	if _, err := exec.LookPath("strace"); err != nil {
		t.Skip("strace is not installed")
	}
	dir, s := t.TempDir(), newSender(t)
	p := startReceiver(t, dir)
	t.Cleanup(func() { _ = p.Process.Kill(); _ = p.Wait() })
	for range 50 {
		s.post(p.url, s.id())
	}
	require.Len(t, s.acked, 50)
	lock := exec.Command("strace", "-f", "-qq", "-o", "/dev/null", "-p", strconv.Itoa(p.Process.Pid),
		"-e", "trace=pwrite64,ftruncate,fsync,fdatasync,unlinkat,unlink", "-e", "inject=pwrite64,ftruncate,fsync,fdatasync,unlinkat,unlink:error=EROFS")
	var says strings.Builder
	lock.Stderr = &says
	require.NoError(t, lock.Start())
	for begun := time.Now(); len(s.tried) == 0; {
		s.post(p.url, s.id())
		if time.Since(begun) > time.Minute {
			_ = lock.Process.Kill()
			t.Skipf("no permission to trace this process: %s", says.String())
		}
	}
	acked := len(s.acked)
	for range 50 {
		s.post(p.url, s.id())
	}
	require.Len(t, s.acked, acked, "no event is acknowledged while it cannot be written")
	require.NoError(t, lock.Process.Signal(syscall.SIGINT))
	_ = lock.Wait()
	freed := time.Now()
	for len(s.tried) > 0 {
		s.post(p.url, s.id())
		require.Less(t, time.Since(freed), time.Minute)
	}
	t.Logf("%d events got 503 while they could not be written; all were stored %s later", 50, time.Since(freed).Round(time.Millisecond))
	require.Empty(t, s.odd, "200 and 503 only")
	p.kill(t)
	s.check(t, dir)
}
