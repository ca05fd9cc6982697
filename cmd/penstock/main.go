// Penstock reads every readable endpoint of a business platform's REST API and loads it as typed tables into a
// database. Data and cursor are committed together.
//
// Each command of penstock, such as sync, has its own file in this folder. This package has what users see: flags,
// tables, progress, messages and exit codes. Other packages do the work.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/penstock-data/penstock/cmd/internal/after"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

func main() {
	if err := forbidCore(); err != nil {
		fmt.Fprintln(os.Stderr, "penstock: forbid core dumps:", err)
		os.Exit(failure.ExitFailed)
	}
	if len(os.Args) > 2 && os.Args[1] == after.Supervisor {
		os.Exit(after.Supervise(os.Args[2:]))
	}
	open.KeepDefaultHeap()
	ctx, stop := withSignals(context.Background())
	code := runCommand(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// withSignals returns a context. The first SIGINT or SIGTERM cancels the context, with the signal as the cause. The
// second signal ends the process at once, which is safe: only uncommitted work is lost.
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
				os.Exit(failure.SignalCode(s))
			}
			cancel(&failure.Stopped{Signal: s, Cause: pipeline.Stop(s)})
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel(nil)
	}
}
