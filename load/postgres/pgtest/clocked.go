//go:build unix

package pgtest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// StartClocked is like [Start], but the server has a clock of its own. The function set sets by how much this clock is
// ahead of the machine's clock. The server's processes use the new time within a second. The library libfaketime
// replaces the system calls that read the clock. If it is not installed, the test is skipped.
func StartClocked(t testing.TB, ahead time.Duration, settings ...string) (s *Server, set func(ahead time.Duration)) {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/*/faketime/libfaketime.so.1")
	if os.Getenv(Env) != "" || len(found) == 0 {
		t.Skipf("the test needs a server of its own, and the package faketime: %s=%q, %q", Env, os.Getenv(Env), found)
	}
	s = newServer(t, settings...)
	t.Cleanup(s.remove)
	s.initialize()
	file := filepath.Join(s.dir, "clock")
	set = func(ahead time.Duration) {
		text := fmt.Sprintf("%+d\n", int64(ahead/time.Second))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644)) //nolint:gosec // the server runs as another user
	}
	set(ahead)
	s.env = []string{"LD_PRELOAD=" + found[0], "FAKETIME_TIMESTAMP_FILE=" + file, "FAKETIME_CACHE_DURATION=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"}
	s.start()
	return s, set
}
