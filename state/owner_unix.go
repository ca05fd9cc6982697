//go:build unix

package state

import (
	"io/fs"
	"os"
	"syscall"
)

// foreign() reports whether a file belongs to another user than the user of this process. It also returns the owner.
func foreign(info fs.FileInfo) (owner uint32, other bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return s.Uid, int64(s.Uid) != int64(os.Geteuid())
}
