package mysqltest

import "syscall"

// attributes makes the server end with the test process, even if that process is killed.
func attributes(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: c, Pdeathsig: syscall.SIGKILL}
}
