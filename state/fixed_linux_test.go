package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func as(t *testing.T, uid, gid int, do func() error) error {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can act as another user")
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0)
		if errno == 0 {
			_, _, errno = unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid))
		}
		if errno == 0 {
			_, _, errno = unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid))
		}
		if errno != 0 {
			done <- fmt.Errorf("become user %d: %w", uid, errno)
			return
		}
		done <- do()
	}()
	return <-done
}

func reachable(t *testing.T) string {
	dir, err := os.MkdirTemp("", "penstock-state-*")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

func TestReadOnlyMount(t *testing.T) {
	const theirs, ours = 65533, 65534
	dir := reachable(t)
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "to")
	for _, d := range []string{from, to} {
		require.NoError(t, os.Mkdir(d, 0o755))
	}
	path := filepath.Join(to, "pipelines.yaml")
	require.NoError(t, os.WriteFile(filepath.Join(from, "pipelines.yaml"), nil, 0o644))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(from, theirs, theirs))
		require.NoError(t, os.Chown(filepath.Join(from, "pipelines.yaml"), theirs, theirs))
	}
	if err := syscall.Mount(from, to, "", syscall.MS_BIND, ""); err != nil {
		t.Skip("only root can mount: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(to, 0) })
	both := func() error { return errors.Join(OnlyOurs(to), OnlyOurs(path)) }
	require.ErrorIs(t, as(t, ours, ours, both), ErrExposed)
	require.NoError(t, syscall.Mount("", to, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	require.NoError(t, as(t, ours, ours, both))
	require.ErrorIs(t, as(t, ours, ours, func() error { return OnlyOurs(from) }), ErrExposed, "on a writable file system, the folder is refused")
}

// A Kubernetes volume belongs to root and to the group of the process. Such a volume is refused, and the error suggests
// a folder inside the volume. The test checks that this folder works.
func TestVolumeOfGroup(t *testing.T) {
	const user, group = 65534, 65533
	volume := filepath.Join(reachable(t), "data")
	require.NoError(t, os.Mkdir(volume, 0o700))
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(volume, 0, group))
		require.NoError(t, os.Chmod(volume, 0o775|os.ModeSetgid))
	}
	use := func(dir string) error {
		return as(t, user, group, func() error {
			l, err := (&Folder{Dir: dir}).Lease(t.Context(), "p", "", 0)
			if err != nil {
				return err
			}
			return l.Release()
		})
	}
	below := filepath.Join(volume, "state")
	err := use(volume)
	require.ErrorIs(t, err, ErrExposed)
	require.ErrorContains(t, err, "use a folder in it, such as "+below+", which penstock creates (this also works on a Kubernetes volume)")
	require.NoError(t, use(below))
	info, err := os.Stat(below)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())

	require.NoError(t, os.Chmod(below, 0o770|os.ModeSetgid)) // as a mount with fsGroup may do
	err = use(below)
	require.ErrorIs(t, err, ErrExposed)
	require.ErrorContains(t, err, "fsGroupChangePolicy: OnRootMismatch")
}
