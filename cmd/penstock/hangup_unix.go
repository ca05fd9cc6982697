//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// hangups returns a channel that gets a value for each SIGHUP, until stop() is called. If several signals arrive
// before the receiver is ready, the receiver gets only one value.
func hangups() (come <-chan struct{}, stop func()) {
	signals, out := make(chan os.Signal, 1), make(chan struct{}, 1)
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		defer close(out)
		for range signals {
			select {
			case out <- struct{}{}:
			default:
			}
		}
	}()
	return out, func() { signal.Stop(signals); close(signals) }
}
