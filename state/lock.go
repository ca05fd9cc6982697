package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// Lock is the right to be the only writer of something on this machine: of one
// pipeline, say. The operating system takes it back when the process ends, in
// whichever way. What several machines share is fenced by the destination's
// sequence number instead. // Invariant 13
type Lock struct {
	file *flock.Flock
}

// Holder is who has a lock, as found in the file beside it.
type Holder struct {
	PID     int       `json:"pid"`
	Host    string    `json:"host"`
	Command string    `json:"command"`
	Since   time.Time `json:"since"`
}

// String names the holder for an error message.
func (h Holder) String() string {
	if h.PID == 0 {
		return "holder unknown"
	}
	return fmt.Sprintf("held by %s (pid %d on %s) since %s", h.Command, h.PID, h.Host, h.Since.Format(time.RFC3339))
}

// lockRetry is how often a lock held by another is tried again.
const lockRetry = 100 * time.Millisecond

// Acquire takes the lock kept in the file path, which it makes together with
// its folder where they are missing. It waits for up to wait while another
// process has it, and then returns [ErrLocked], wrapped, with the holder's name.
func Acquire(ctx context.Context, path string, wait time.Duration) (*Lock, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	f := flock.New(path, flock.SetPermissions(0o600))
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	ok, err := f.TryLock()
	if err == nil && !ok {
		ok, err = f.TryLockContext(limited, lockRetry)
	}
	switch {
	case ok:
	case ctx.Err() != nil:
		return nil, fmt.Errorf("lock %s: %w", path, ctx.Err())
	case err == nil, errors.Is(err, context.DeadlineExceeded):
		return nil, fmt.Errorf("lock %s: %w: %s", path, ErrLocked, holder(path))
	default:
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if err := sign(path); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Unlock())
	}
	return &Lock{file: f}, nil
}

// Token is 0: the operating system knows who has the lock.
func (l *Lock) Token() int64 { return 0 }

// Lost is nil: the lock ends with the process.
func (l *Lock) Lost() <-chan struct{} { return nil }

// Release gives the lock back. Doing so twice is fine. The file stays: removing
// it could take it from under a process that is just opening it.
func (l *Lock) Release() error {
	if err := l.file.Unlock(); err != nil {
		return fmt.Errorf("unlock %s: %w", l.file.Path(), err)
	}
	return nil
}

// signed is the file that names the holder. It is not the locked one, which
// some systems let nobody else read.
func signed(path string) string { return path + ".holder" }

func sign(path string) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	text, err := json.Marshal(Holder{
		PID: os.Getpid(), Host: host, Command: filepath.Base(os.Args[0]), Since: time.Now().UTC().Truncate(time.Second),
	})
	if err != nil {
		return err
	}
	return os.WriteFile(signed(path), append(text, '\n'), 0o600)
}

// holder reads who has the lock; the zero Holder where nothing tells.
func holder(path string) Holder {
	var h Holder
	text, err := os.ReadFile(signed(path))
	if err != nil || json.Unmarshal(text, &h) != nil {
		return Holder{}
	}
	return h
}
