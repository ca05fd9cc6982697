package after

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// Supervisor is the first argument of a process that must call [Supervise]. No command of penstock has this name.
const Supervisor = "after:supervise"

// killGrace is how long a stopped command may take to end. Then it is killed. // Invariant 15
const killGrace = 3 * time.Second

// notStarted is the exit code of a supervisor that cannot start its command. Shells use the same number.
const notStarted = 127

// Supervise runs a command, and returns its exit code. When stdin ends, or at a signal, it stops the command and its
// child processes. The parent process has the other end of stdin open, so stdin also ends if the parent is killed.
func Supervise(words []string) int {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return notStarted
	}
	left, ended := make(chan struct{}), make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(left)
	}()
	go func() {
		select {
		case <-left:
		case <-signals:
		case <-ended:
			return
		}
		stopGroup(cmd)
		select {
		case <-time.After(killGrace):
			killGroup(cmd)
		case <-ended:
		}
	}()
	err := cmd.Wait()
	close(ended)
	killGroup(cmd) // child processes that are left
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch {
	case err == nil:
		return 0
	case exited && exit.ExitCode() > 0:
		return exit.ExitCode()
	}
	fmt.Fprintln(os.Stderr, err) // a signal has ended the command
	return 1
}
