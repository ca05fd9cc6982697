//go:build unix && !linux

package pgtest

import (
	"os"
	"syscall"
)

func attributes(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: c}
}

// parent returns the folder for the servers' folders.
func parent() string { return os.TempDir() }
