//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// together makes the children of a command end when the command is killed. Otherwise each run of a daemon could
// leave children behind.
func together(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
