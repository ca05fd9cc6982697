package state

import "golang.org/x/sys/unix"

// fixed() reports whether path is on a file system that is mounted read-only. It cannot use access(2): if the user has
// no right to write, access(2) reports the missing right, and not that the file system is read-only.
func fixed(path string) bool {
	var s unix.Statfs_t
	return unix.Statfs(path, &s) == nil && s.Flags&unix.ST_RDONLY != 0
}
