package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gofrs/flock"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/state"
)

// lockPipeline keeps a second process of this machine from making the same run
// until unlock; the destination's own fence keeps those of others. The lock is
// the operating system's and ends with the process, however that ends.
// // Invariant 13
func lockPipeline(s config.State, name string) (unlock func(), err error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, usage("`state:` in the configuration says where it is", "make state folder: %w", err)
	}
	path := filepath.Join(s.Dir, name+".lock")
	l := flock.New(path, flock.SetPermissions(0o600))
	got, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock pipeline %s: %w", name, err)
	}
	if !got {
		return nil, fmt.Errorf("lock pipeline %s: %w%s", name, state.ErrLocked, holder(path))
	}
	// Who holds it is for people to read; the lock does not depend on it.
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("lock pipeline %s: %w", name, err), l.Unlock())
	}
	return func() { _ = l.Unlock() }, nil
}

// holder names the process that wrote its number into the lock.
func holder(path string) string {
	data, err := os.ReadFile(path)
	pid := strings.TrimSpace(string(data))
	if _, bad := strconv.Atoi(pid); err != nil || bad != nil {
		return ""
	}
	return " (process " + pid + ")"
}
