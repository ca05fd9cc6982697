package pgtest

import (
	"os"
	"syscall"
)

// attributes makes the server end when the test process that started it ends, even if that process is killed.
func attributes(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: c, Pdeathsig: syscall.SIGQUIT}
}

// parent returns the folder for the servers' folders: one in memory, if it has a gigabyte free, because ext4 takes a
// second to make the thousand files of a server soon after the files of another were deleted.
func parent() string {
	const dir = "/dev/shm"
	var disk syscall.Statfs_t
	if syscall.Statfs(dir, &disk) != nil || disk.Bavail*uint64(disk.Bsize) < 1<<30 {
		return os.TempDir()
	}
	return dir
}
