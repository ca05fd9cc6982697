package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// LockedFile is a few kilobytes that processes of one machine read and change in
// turns, as often as thousands of times a second. It is a file under an
// advisory lock that the operating system takes back from a process that ends.
// Nothing is synced: what is shared is for the moment, or can be found out
// again.
//
// It is safe for concurrent use.
type LockedFile struct {
	path string

	mu     sync.Mutex
	file   *os.File
	lease  sharedLease
	looked time.Time // when the file was last seen to be the one at path
}

// sharedLook is how often it is looked whether the file is still at its path.
const sharedLook = time.Second

// OpenShared opens the file at path, which it makes together with its folder
// where they are missing. Only this user can read it.
func OpenShared(path string) (*LockedFile, error) {
	s := &LockedFile{path: path}
	if err := s.open(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *LockedFile) open() error {
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return fmt.Errorf("open %s: %w", s.path, err)
	}
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("open %s: %w", s.path, err)
	}
	s.file, s.looked = f, time.Now()
	return nil
}

// Change reads the file into mem, lets change work on that and, if it reports
// true, writes mem back, all while no other process does the same. It returns
// false, at once, if another one is about it: that takes microseconds, so try
// again soon, and after seconds take it for stopped.
//
// What the file does not have of mem is zero: all of it in a new file. A process
// that is killed in the middle may leave a part of what it wrote; mem should tell.
func (s *LockedFile) Change(mem []byte, change func() bool) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if locked, err := s.lock(); !locked || err != nil {
		return false, s.wrap(err)
	}
	err := s.exchange(mem, change)
	return true, s.wrap(errors.Join(err, s.lease.unlock(s.file)))
}

func (s *LockedFile) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("share %s: %w", s.path, err)
}

func (s *LockedFile) exchange(mem []byte, change func() bool) error {
	n, err := s.file.ReadAt(mem, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	clear(mem[n:])
	if !change() {
		return nil
	}
	_, err = s.file.WriteAt(mem, 0)
	return err
}

// lock takes the lock of the file that is at the path, if nobody has it.
func (s *LockedFile) lock() (bool, error) {
	for {
		if s.file == nil {
			return false, fs.ErrClosed
		}
		if locked, err := s.lease.tryLock(s.file); !locked || err != nil {
			return false, err
		}
		if same, err := s.current(); same || err != nil {
			return err == nil, err
		}
		// Somebody has removed the file: the others have another one by now.
		if err := errors.Join(s.lease.unlock(s.file), s.file.Close(), s.open()); err != nil {
			return false, err
		}
	}
}

// current reports whether the file is still the one at the path; it looks once
// in a while.
func (s *LockedFile) current() (bool, error) {
	if since := time.Since(s.looked); since >= 0 && since < sharedLook {
		return true, nil
	}
	own, err := s.file.Stat()
	if err != nil {
		return false, err
	}
	at, err := os.Stat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	s.looked = time.Now()
	return os.SameFile(own, at), nil
}

// Sync waits until what was written would outlive a power cut.
func (s *LockedFile) Sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	return s.file.Sync()
}

// Close gives the file up. The file stays, for the others and for the next.
func (s *LockedFile) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}
