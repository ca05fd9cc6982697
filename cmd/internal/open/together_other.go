//go:build !unix

package open

import "os/exec"

// together does nothing. On these systems, only the command itself is killed.
func together(*exec.Cmd) {}
