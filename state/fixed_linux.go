package state

import "golang.org/x/sys/unix"

// fixed reports whether path is on a file system that is mounted read-only. access(2) does not report that for a file
// that this user may not write anyway.
func fixed(path string) bool {
	var s unix.Statfs_t
	return unix.Statfs(path, &s) == nil && s.Flags&unix.ST_RDONLY != 0
}
