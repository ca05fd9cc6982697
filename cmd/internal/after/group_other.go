//go:build !unix

package after

import "os/exec"

// ownGroup does nothing. On these systems, only the command itself is stopped, and not its child processes.
func ownGroup(*exec.Cmd) {}

func stopGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() } // an error: the command has ended

func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() } // an error: the command has ended
