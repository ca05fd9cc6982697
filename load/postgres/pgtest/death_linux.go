package pgtest

import "syscall"

// attributes makes the server end with the test process that started it, however that ends.
func attributes(c *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: c, Pdeathsig: syscall.SIGQUIT}
}
