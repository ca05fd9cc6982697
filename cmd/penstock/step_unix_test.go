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

// signalAt kills the process, as a power cut would, or stops it, when it reaches a step.
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
				for signal == syscall.SIGKILL { // until the signal arrives
					time.Sleep(time.Second)
				}
			}
		}
		return nil
	}
}
