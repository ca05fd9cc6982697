package after

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// Supervisor is the first argument of a process that must call [Supervise]. No command of penstock has this name.
const Supervisor = "after:supervise"

// killGrace is how long a stopped command may take to end. Then it is killed. // Invariant 15
const killGrace = 3 * time.Second

// notStarted is the exit code of a supervisor that cannot start its command. Shells use the same number.
const notStarted = 127

// The parent process writes to its supervisor once in each beat. If nothing arrives for the time of silence, it is
// suspended. Then it may lose the lease of the commands, which another process gets after 30 seconds without a renewal.
// The supervisor must have stopped the command before. // Invariant 13
const (
	beat    = time.Second
	silence = 15 * time.Second
)

// Supervise runs a command, and returns its exit code. Its first argument is the time of silence, the others are the
// command. It stops the command and its child processes at a signal, when stdin ends, and when nothing arrives on stdin
// for the time of silence. The parent process has the other end of stdin open, so stdin also ends if the parent is killed.
func Supervise(args []string) int {
	longest, err := time.ParseDuration(args[0])
	if err != nil || len(args) < 2 {
		fmt.Fprintln(os.Stderr, "want the time of silence and a command")
		return notStarted
	}
	runtime.LockOSThread() // the command ends with the thread that has started it
	words := args[1:]
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	ownGroup(cmd)
	endWithParent(cmd)
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return notStarted
	}
	beats, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(beats)
		for read := make([]byte, 64); ; beats <- struct{}{} {
			if _, err := os.Stdin.Read(read); err != nil {
				return
			}
		}
	}()
	go func() {
		if !mustStop(beats, signals, ended, longest) {
			return
		}
		stopGroup(cmd)
		select {
		case <-time.After(killGrace):
			killGroup(cmd)
		case <-ended:
		}
	}()
	err = cmd.Wait()
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

// mustStop waits until the command must stop, or has ended. It reports whether the command must stop.
func mustStop(beats <-chan struct{}, signals <-chan os.Signal, ended <-chan struct{}, longest time.Duration) bool {
	for {
		select {
		case _, alive := <-beats:
			if !alive {
				return true
			}
		case <-signals:
			return true
		case <-time.After(longest):
			return true
		case <-ended:
			return false
		}
	}
}
