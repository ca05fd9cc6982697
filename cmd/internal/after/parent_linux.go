package after

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the system kill a command if the thread that has started it ends. The caller has called ownGroup.
func endWithParent(cmd *exec.Cmd) { cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL }
