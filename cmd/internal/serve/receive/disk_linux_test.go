package receive

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size+",mode=700"); err != nil {
		t.Skipf("this process may not mount: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

func fill(t *testing.T, dir string) string {
	t.Helper()
	path := filepath.Join(dir, "others")
	f, err := os.Create(path)
	require.NoError(t, err)
	for _, size := range []int{1 << 20, 64 << 10, 1} {
		for {
			if _, err := f.Write(make([]byte, size)); err != nil {
				require.ErrorIs(t, err, syscall.ENOSPC)
				break
			}
		}
	}
	require.NoError(t, f.Close())
	return path
}

func rigOn(t *testing.T, dir string, o state.InboxOptions) *rig {
	t.Helper()
	r := newRig(t)
	require.NoError(t, r.inbox.Close())
	var err error
	r.inbox, err = state.OpenInbox(t.Context(), dir, o)
	require.NoError(t, err)
	r.options.Inbox, r.dir = r.inbox, dir
	return r
}

// On a full disk, senders get only 503. When there is space again, the receiver goes on without a restart.
func TestDiskFull(t *testing.T) {
	r := rigOn(t, smallDisk(t, "8m"), state.InboxOptions{})
	s := newSender(t)
	url := r.URL + "/webhooks/main"
	for range 3 {
		for range 50 {
			s.post(url, s.id())
		}
		others := fill(t, r.dir)
		before := len(s.acked)
		s.pad = 4 << 10 // large events, which soon use up the free pages in the files
		for range 50 {
			s.post(url, s.id())
		}
		require.NotEmpty(t, s.tried)
		t.Logf("%d acknowledged on a full disk", len(s.acked)-before)
		s.pad = 0
		require.NoError(t, os.Remove(others))
		freed := time.Now()
		for len(s.tried) > 0 {
			s.post(url, s.id())
			require.Less(t, time.Since(freed), time.Minute)
		}
	}
	require.Empty(t, s.odd, "the only statuses are 200 and 503")
	require.NotZero(t, r.verdicts()["main inbox full"])
	require.NoError(t, r.inbox.Close())
	requireAcked(t, s, r.dir)
}

func requireAcked(t *testing.T, s *sender, dir string) {
	t.Helper()
	inbox, err := state.OpenInbox(t.Context(), dir, state.InboxOptions{})
	require.NoError(t, err)
	es, err := inbox.Events(t.Context(), "main", 0, 1e6)
	require.NoError(t, err)
	there := map[string]bool{}
	for _, e := range es {
		there[e.ID] = true
	}
	for id := range s.acked {
		require.True(t, there[id], id)
	}
	require.NoError(t, inbox.Close())
}

// If the inbox itself has filled the disk, applying events makes space.
func TestDiskFullOfEvents(t *testing.T) {
	r := rigOn(t, smallDisk(t, "8m"), state.InboxOptions{})
	large := strings.Repeat("x", 100<<10)
	full := 0
	for n := 0; full < 5; n++ {
		require.Less(t, n, 1000)
		switch a := r.deliver(t, fmt.Sprint(n, large)); a.status {
		case 200:
		case 503:
			full++
		default:
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	require.NoError(t, r.inbox.Trim(t.Context(), "main", 1e9))
	require.Equal(t, 200, r.deliver(t, large).status)
}
