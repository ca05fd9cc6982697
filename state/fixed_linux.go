package state

import "golang.org/x/sys/unix"

// fixed reports whether path is on a file system that is mounted read-only. It does not use access(2), because
// access(2) reports missing write permission first.
func fixed(path string) bool {
	var s unix.Statfs_t
	return unix.Statfs(path, &s) == nil && s.Flags&unix.ST_RDONLY != 0
}
