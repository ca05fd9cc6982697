//go:build unix

package after

import (
	"os/exec"
	"syscall"
)

// ownGroup starts a command in a process group of its own, so that its child processes can be stopped with it, and so
// that a signal of the terminal does not reach it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// stopGroup asks a command and its child processes to end.
func stopGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) } // an error: the group has ended

// killGroup kills a command and its child processes.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // an error: the group has ended
