package state

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInboxDiskFullInTheMiddle(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=8m,mode=700"); err != nil {
		t.Skipf("this process may not mount: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	b := openInbox(t, dir, InboxOptions{})
	b.room = func(context.Context, []*Delivery) error { return nil }
	appended(t, b, event(0))
	others := filepath.Join(dir, "others")
	require.NoError(t, os.WriteFile(others, make([]byte, 4<<20), 0o600))
	kept := 1
	for err := error(nil); err == nil; kept++ {
		require.Less(t, kept, 1000)
		e := event(kept)
		e.Body = make([]byte, 64<<10)
		if _, err = b.Append(t.Context(), e); err != nil {
			require.ErrorIs(t, err, ErrInboxFull)
			break
		}
	}
	require.Len(t, events(t, b, "main", 0, 1e6), kept)
	require.NoError(t, os.Remove(others))
	require.Equal(t, Stored, appended(t, b, event(kept)), "there is space again for a small event")
	require.Len(t, events(t, b, "main", 0, 1e6), kept+1)
}
