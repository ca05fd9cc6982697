package pgtest

import "syscall"

// attributes let the server end with the test that started it, however that
// ends.
func attributes(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: c, Pdeathsig: syscall.SIGQUIT}
}
