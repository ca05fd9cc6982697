//go:build unix

package state

import (
	"io/fs"
	"os"
	"syscall"
)

// foreign reports whether a file belongs to another user than this process. It returns the owner, too.
func foreign(info fs.FileInfo) (owner uint32, other bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return s.Uid, int64(s.Uid) != int64(os.Geteuid())
}
