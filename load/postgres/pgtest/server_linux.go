package pgtest

import (
	"os"
	"syscall"
)

// attributes returns attributes of the server's process. With them, the server ends with the test process, even if the
// test process is killed.
func attributes(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: c, Pdeathsig: syscall.SIGQUIT}
}

// parent returns the folder for the servers' folders. If a gigabyte is free in memory, this is a folder in memory,
// because files are made faster there. On ext4, a server's thousand files can take a second to make if the files of
// another server were deleted shortly before.
func parent() string {
	const dir = "/dev/shm"
	var disk syscall.Statfs_t
	if syscall.Statfs(dir, &disk) != nil || disk.Bavail*uint64(disk.Bsize) < 1<<30 {
		return os.TempDir()
	}
	return dir
}
