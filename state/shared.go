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

// LockedFile is a file of a few kilobytes that the processes of one machine share. They read and change it in turns, up
// to thousands of times per second. A lock on the file excludes other processes. The operating system releases the lock
// when a process ends. Writes are not synced, because the content is not needed after a restart of the machine, or can
// be computed again.
//
// A LockedFile is safe for concurrent use.
type LockedFile struct {
	path string

	mu      sync.Mutex
	file    *os.File
	lease   sharedLease
	looked  time.Time // when the open file was last compared with the file at path
	content []byte    // buffer for reading
}

const sharedLook = time.Second

// sharedMost is the approximate limit for the bytes that are read from a file. penstock does not write longer files.
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

// Change takes the lock, reads the file, and calls the function update with the file's content. If update does not
// return nil, Change writes the result to the beginning of the file. If another process holds the lock, Change returns
// false at once. Processes usually hold the lock for microseconds, so the caller should soon try again. After some
// seconds, the caller should treat the other process as stalled.
//
// Change never shortens the file. If a process is killed during a write, it may have written only a part. So the
// content must include its length and a checksum, by which the reader detects old bytes at the end and incomplete
// writes. The function update must not keep its argument.
func (s *LockedFile) Change(update func(stored []byte) []byte) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if locked, err := s.lock(); !locked || err != nil {
		return false, s.wrap(err)
	}
	err := s.exchange(update)
	return true, s.wrap(errors.Join(err, s.lease.unlock(s.file)))
}

func (s *LockedFile) wrap(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("use %s: %w", s.path, err)
}

func (s *LockedFile) exchange(update func([]byte) []byte) error {
	n, err := s.file.ReadAt(s.content, 0)
	for err == nil && len(s.content) < sharedMost { // the buffer is full, so the file may have more bytes
		s.content = append(s.content, make([]byte, max(4<<10, len(s.content)))...)
		n, err = s.file.ReadAt(s.content, 0)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if next := update(s.content[:n]); next != nil {
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
		// The file was removed, and other processes may have created a new one at path.
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

// Sync makes earlier changes durable.
func (s *LockedFile) Sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	return s.file.Sync()
}

// Close closes the file, but does not remove it, because other processes may use it.
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
