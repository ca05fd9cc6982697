//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package state

import (
	"errors"
	"os"
	"syscall"
)

// sharedLease locks the shared file itself. Each step is one system call.
type sharedLease struct{}

func (sharedLease) tryLock(f *os.File) (bool, error) {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return true, nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, syscall.EINTR):
			return false, err
		}
	}
}

func (sharedLease) unlock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_UN) }
