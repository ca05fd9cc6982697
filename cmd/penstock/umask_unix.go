//go:build unix

package main

import (
	"io/fs"
	"syscall"
)

// narrowUmask keeps files of this process from being writable by other users, and keeps them readable and
// writable by their owner. It returns the original umask. Libraries such as DuckDB create files without a
// configurable mode, so only the umask can do this.
func narrowUmask() fs.FileMode {
	old := syscall.Umask(0o022)
	syscall.Umask(old&0o077 | 0o022)
	return fs.FileMode(old)
}
