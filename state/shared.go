package state

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// Shared is a few kilobytes that processes of one machine read and change in
// turns, as often as thousands of times a second. It is a file under an
// advisory lock that the operating system takes back from a process that ends.
// Nothing is synced: what is shared is for the moment, or can be found out
// again.
//
// It is safe for concurrent use.
type Shared struct {
	path string

	mu      sync.Mutex
	file    *os.File
	lease   sharedLease
	looked  time.Time // when the file was last seen to be the one at path
	patient time.Duration
}

// The waits for a file that another process is about to leave.
const (
	sharedPatience = 10 * time.Second
	sharedLook     = time.Second
)

// OpenShared opens the file at path, which it makes together with its folder
// where they are missing. Only this user can read it.
func OpenShared(path string) (*Shared, error) {
	s := &Shared{path: path, patient: sharedPatience}
	if err := s.open(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Shared) open() error {
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
// true, writes mem back, all while no other process does the same. What the file
// does not have of mem is zero: all of it in a new file. A process that is
// killed in the middle may leave a part of what it wrote; mem should tell.
func (s *Shared) Change(mem []byte, change func() bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.lock(); err != nil {
		return fmt.Errorf("share %s: %w", s.path, err)
	}
	err := s.exchange(mem, change)
	if err := errors.Join(err, s.lease.unlock(s.file)); err != nil {
		return fmt.Errorf("share %s: %w", s.path, err)
	}
	return nil
}

func (s *Shared) exchange(mem []byte, change func() bool) error {
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

// lock waits for the lock of the file that is at the path.
func (s *Shared) lock() error {
	for {
		if s.file == nil {
			return fs.ErrClosed
		}
		if err := s.await(); err != nil {
			return err
		}
		if same, err := s.current(); same || err != nil {
			return err
		}
		// Somebody has removed the file: the others have another one by now.
		if err := errors.Join(s.lease.unlock(s.file), s.file.Close(), s.open()); err != nil {
			return err
		}
	}
}

// await takes the lock. It is held for microseconds at a time, so that a wait of
// seconds means that its holder has been stopped.
func (s *Shared) await() error {
	pause := 20 * time.Microsecond
	for begun := time.Now(); ; pause = min(2*pause, time.Millisecond) {
		for range 8 {
			if ok, err := s.lease.tryLock(s.file); ok || err != nil {
				return err
			}
			runtime.Gosched()
		}
		if time.Since(begun) > s.patient {
			return fmt.Errorf("%w, which seems to have been stopped", ErrLocked)
		}
		time.Sleep(pause)
	}
}

// current reports whether the file is still the one at the path; it looks once
// in a while.
func (s *Shared) current() (bool, error) {
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
func (s *Shared) Sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	return s.file.Sync()
}

// Close gives the file up. The file stays, for the others and for the next.
func (s *Shared) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}
