//go:build unix

package main

import (
	"io/fs"
	"syscall"
)

// narrowUmask sets the umask: only the owner can write to files of this process, and the owner can always read them.
// It returns the original umask. The umask is the only way to do this, because libraries such as DuckDB do not let us
// choose the mode of a file.
func narrowUmask() fs.FileMode {
	old := syscall.Umask(0o022)
	syscall.Umask(old&0o077 | 0o022)
	return fs.FileMode(old)
}
