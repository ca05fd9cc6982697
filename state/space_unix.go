//go:build darwin || freebsd || linux

package state

import "syscall"

// diskSpace returns how many bytes of the disk that dir is on are free for this
// user, and how many it has. ok is false where that is not told.
func diskSpace(dir string) (free, all int64, ok bool) {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return 0, 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), int64(s.Blocks) * int64(s.Bsize), true
}
