//go:build unix

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// hangups gives something for every SIGHUP until stop is called. Those that
// come while nobody looks are one.
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
