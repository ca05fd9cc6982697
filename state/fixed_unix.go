//go:build unix && !linux

package state

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// fixed reports whether path is on a file system that is mounted read-only.
func fixed(path string) bool { return errors.Is(unix.Access(path, unix.W_OK), syscall.EROFS) }
