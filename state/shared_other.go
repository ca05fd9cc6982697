//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package state

import (
	"os"

	"github.com/gofrs/flock"
)

// sharedLease locks a second file, because on these systems other processes cannot read a locked file.
type sharedLease struct{ beside *flock.Flock }

func (l *sharedLease) tryLock(f *os.File) (bool, error) {
	if l.beside == nil {
		l.beside = flock.New(f.Name()+".lock", flock.SetPermissions(0o600))
	}
	return l.beside.TryLock()
}

func (l *sharedLease) unlock(*os.File) error { return l.beside.Unlock() }
