package pgtest

import "syscall"

// attributes makes the server end when the test process that started it ends, even if that process is killed.
func attributes(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: c, Pdeathsig: syscall.SIGQUIT}
}
