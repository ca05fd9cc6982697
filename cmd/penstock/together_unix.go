//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// together has a command and all that it begins be killed as one: a child left
// behind by each run of a daemon would be many.
func together(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
