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

// LockedFile is a file of a few kilobytes that the processes of one machine read and change in turns, up to thousands
// of times per second. It has an advisory lock that the operating system releases when a process ends. Writes are not
// synced, because the content is only valid for the moment or can be determined again.
//
// It is safe for concurrent use.
type LockedFile struct {
	path string

	mu      sync.Mutex
	file    *os.File
	lease   sharedLease
	looked  time.Time // when the file was last checked to be the one at path
	content []byte    // memory for reading the file
}

const sharedLook = time.Second

// sharedMost is about how much of a file is read. A longer file was not written by penstock.
const sharedMost = 1 << 20

// OpenShared opens the file at path, and creates it and its folder if they are missing. Only this user can read it.
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

// Change takes the lock, reads the file, calls the function change with its content, and writes what change returns to
// the beginning of the file, unless that is nil. If another process holds the lock, Change returns false at once. The
// lock is usually held for microseconds, so the caller should try again soon. After some seconds, the caller should
// treat the other process as stopped.
//
// Change does not make the file shorter, and a process that is killed during a write may have written only a part. So
// the content needs its length and a checksum, by which the caller detects this. The content is only valid during the
// call.
func (s *LockedFile) Change(change func(stored []byte) []byte) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if locked, err := s.lock(); !locked || err != nil {
		return false, s.wrap(err)
	}
	err := s.exchange(change)
	return true, s.wrap(errors.Join(err, s.lease.unlock(s.file)))
}

func (s *LockedFile) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("use %s: %w", s.path, err)
}

func (s *LockedFile) exchange(change func([]byte) []byte) error {
	n, err := s.file.ReadAt(s.content, 0)
	for err == nil && len(s.content) < sharedMost { // there may be more
		s.content = append(s.content, make([]byte, max(4<<10, len(s.content)))...)
		n, err = s.file.ReadAt(s.content, 0)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if next := change(s.content[:n]); next != nil {
		_, err = s.file.WriteAt(next, 0)
		return err
	}
	return nil
}

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
		// The file was removed: other processes use a new one.
		if err := errors.Join(s.lease.unlock(s.file), s.file.Close(), s.open()); err != nil {
			return false, err
		}
	}
}

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

// Sync makes what was written durable.
func (s *LockedFile) Sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	return s.file.Sync()
}

// Close closes the file. The file stays, for other processes.
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
