//go:build unix && !linux

package state

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

func fixed(path string) bool { return errors.Is(unix.Access(path, unix.W_OK), syscall.EROFS) }
