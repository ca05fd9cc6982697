// Penstock reads every readable endpoint of a business platform's REST API and
// lands it as typed tables in a database, data and position in one commit.
//
// Each verb of the command line is a file of this folder. What a verb does
// stands in the packages to the left; here is what a person sees of it: flags,
// tables, progress, messages, exit codes.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// defaultHeap is what the collector keeps the Go heap near, where neither
// GOMEMLIMIT nor a destination says anything else. It holds column buffers, which are large, short-lived and
// without pointers: to collect them often costs little. // Invariant 6
const defaultHeap = 128 << 20

func main() {
	if err := forbidCore(); err != nil {
		fmt.Fprintln(os.Stderr, "penstock: forbid core dumps:", err)
		os.Exit(exitFailed)
	}
	keepHeap(defaultHeap)
	ctx, stop := withSignals(context.Background())
	code := execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// keepHeap has the collector keep the heap near so many bytes, unless whoever
// started the process has said how many.
func keepHeap(bytes int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(bytes)
	}
}

// spread keeps the heap near what the hungriest run of this process wants, of
// which there is one, but for a daemon.
func (a *app) spread(bytes int64) {
	for {
		was := a.heap.Load()
		if bytes <= was {
			return
		}
		if a.heap.CompareAndSwap(was, bytes) {
			keepHeap(bytes)
			return
		}
	}
}

// withSignals gives a context which the first SIGINT or SIGTERM cancels with
// the signal as its cause. The second ends the process at once: whoever sends
// it has waited long enough, and what is not committed is lost to no one.
func withSignals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		for n := 0; ; n++ {
			s, ok := <-signals
			switch {
			case !ok:
				return
			case n > 0:
				os.Exit(signalCode(s))
			}
			cancel(&stopped{signal: s, cause: pipeline.Stop(s)})
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel(nil)
	}
}

// signalCode is the exit code of a process that ended by s.
func signalCode(s os.Signal) int {
	if s == syscall.SIGTERM {
		return 143
	}
	return 130
}
