package pgtest

import (
	"os"
	"syscall"
)

// attributes makes the server end with the test process, even if that process is killed.
func attributes(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: c, Pdeathsig: syscall.SIGQUIT}
}

// parent returns the folder for the servers' folders. This is a folder in memory if a gigabyte is free there. On
// ext4, making the thousand files of a server takes a second if the files of another server were deleted shortly
// before.
func parent() string {
	const dir = "/dev/shm"
	var disk syscall.Statfs_t
	if syscall.Statfs(dir, &disk) != nil || disk.Bavail*uint64(disk.Bsize) < 1<<30 {
		return os.TempDir()
	}
	return dir
}
