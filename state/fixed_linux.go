package state

import "golang.org/x/sys/unix"

// fixed reports whether path is on a file system that is mounted to read only. access(2)
// does not say so of a file that its mode keeps from this user.
func fixed(path string) bool {
	var s unix.Statfs_t
	return unix.Statfs(path, &s) == nil && s.Flags&unix.ST_RDONLY != 0
}
