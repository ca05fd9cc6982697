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

// Lock is the exclusive right to write something on this machine, for example to one pipeline. The operating system
// releases it when the process ends in any way. A Lock does not exclude processes on other machines. For
// these, the destination compares the stream's sequence number at each commit. // Invariant 13
type Lock struct {
	file *flock.Flock
}

// Holder identifies the process that holds a lock. It is stored in a file beside the lock file.
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

const lockRetry = 100 * time.Millisecond

// Acquire takes the lock of the file at path, and creates the file and its folder if they are missing. If another
// process holds the lock for longer than the given time, Acquire returns [ErrLocked], wrapped. The error names the
// holder.
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
	if err := writeHolder(path); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Unlock())
	}
	return &Lock{file: f}, nil
}

// Token implements [Lease]. It returns 0, because the operating system manages the lock.
func (l *Lock) Token() int64 { return 0 }

// Lost implements [Lease]. It returns nil, because a process keeps its lock until it ends.
func (l *Lock) Lost() <-chan struct{} { return nil }

// Release releases the lock. It may be called twice. The lock file stays, because another process may just have opened
// it. If the file were removed, that process would lock a deleted file.
func (l *Lock) Release() error {
	if err := l.file.Unlock(); err != nil {
		return fmt.Errorf("unlock %s: %w", l.file.Path(), err)
	}
	return nil
}

// holderPath returns the path of the file that names the holder. This is a separate file, because on some systems
// other processes cannot read a locked file.
func holderPath(path string) string { return path + ".holder" }

func writeHolder(path string) error {
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
	return os.WriteFile(holderPath(path), append(text, '\n'), 0o600)
}

func holder(path string) Holder {
	var h Holder
	text, err := os.ReadFile(holderPath(path))
	if err != nil || json.Unmarshal(text, &h) != nil {
		return Holder{}
	}
	return h
}
