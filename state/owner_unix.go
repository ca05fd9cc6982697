//go:build unix

package state

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// fixed reports whether path is on a file system that is mounted to read only.
func fixed(path string) bool { return errors.Is(unix.Access(path, unix.W_OK), syscall.EROFS) }

// foreign reports whether a file belongs to another user than the one that this process
// runs as, and to whom.
func foreign(info fs.FileInfo) (owner uint32, other bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return s.Uid, int64(s.Uid) != int64(os.Geteuid())
}
