//go:build unix

package open

import (
	"os/exec"
	"syscall"
)

// together makes the children of a command end when the command is killed. Otherwise they would run on, and a
// daemon would collect more of them with each run.
func together(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
