//go:build unix

package main

import (
	"io/fs"
	"syscall"
)

// narrowUmask keeps files that the process and its engines make from being writable by
// others, and keeps them readable and writable by their owner. It returns the umask that
// the process was started with. A library that makes files of its own, as DuckDB does with
// its log, takes no mode: the umask is the only way to say so.
func narrowUmask() fs.FileMode {
	old := syscall.Umask(0o022)
	syscall.Umask(old&0o077 | 0o022)
	return fs.FileMode(old)
}
