//go:build unix

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// signalAt returns a function, which [app] calls at each step of a commit. If the argument is "list", the function
// prints each step. If the argument is STEP:N, the function kills the process when the process reaches this step for
// the Nth time, as a power cut would. If the argument is STEP:N:STOP, the function stops the process at that time.
func signalAt(spec string) func(string) error {
	var mu sync.Mutex
	if spec == "list" {
		return func(name string) error {
			mu.Lock()
			defer mu.Unlock()
			fmt.Println("step " + name)
			return nil
		}
	}
	name, rest, _ := strings.Cut(spec, ":")
	nth, sig, _ := strings.Cut(rest, ":")
	n, _ := strconv.Atoi(nth)
	signal := syscall.SIGKILL
	if sig == "STOP" {
		signal = syscall.SIGSTOP
	}
	return func(step string) error {
		mu.Lock()
		defer mu.Unlock()
		if step == name {
			if n--; n == 0 {
				_ = syscall.Kill(os.Getpid(), signal)
				for signal == syscall.SIGKILL { // wait for the signal
					time.Sleep(time.Second)
				}
			}
		}
		return nil
	}
}
