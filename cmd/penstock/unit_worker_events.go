package main

import (
	"context"
	"runtime/debug"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/daemon"
	"github.com/penstock-data/penstock/state"
)

// applyEventsEvery is how often webhook events are applied during an attempt.
const applyEventsEvery = time.Second

// applyEvents applies the webhook events of the source while an attempt is under way, until stop is
// called. The attempt has the lease, so serve cannot apply them. The destination records which events
// were applied. By this record, serve removes the events from the inbox and starts the runs that they require.
func (w *claimedWork) applyEvents(ctx context.Context) (stop func()) {
	s, ok := w.conf.Source(w.pipeline.From[0].Text)
	if !ok || s.Webhooks == nil {
		return func() {}
	}
	inbox, err := w.db.OpenInbox(ctx, state.InboxOptions{})
	if err != nil {
		w.log.Warn("webhook events wait until the units end", "pipeline", w.pipeline.Name, "source", w.job.Source, "error", err)
		return func() {}
	}
	x := w.newApplier(w.conf, w.pipeline, inbox, daemon.NewInboxTrimmer(&config.Config{}))
	ctx, cancel := context.WithCancel(ctx)
	w.guard(ctx, func() error { return x.watch(ctx) }) // so that new passes expect events
	var applying sync.WaitGroup
	applying.Go(func() {
		tick := time.NewTicker(applyEventsEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				w.guard(ctx, func() error { _, err := x.apply(ctx); return err })
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		applying.Wait()
		x.close()
		_ = inbox.Close() // nothing was added to it
	}
}

// guard calls the function do, and recovers from a panic. Events that are not applied are left to
// serve.
func (w *claimedWork) guard(ctx context.Context, do func() error) {
	defer func() {
		if v := recover(); v != nil {
			w.log.Error("applying events panicked", "pipeline", w.pipeline.Name, "source", w.job.Source, "stack", string(debug.Stack()))
		}
	}()
	if err := do(); err != nil && ctx.Err() == nil {
		w.log.Debug("webhook events not applied", "pipeline", w.pipeline.Name, "source", w.job.Source, "error", err)
	}
}
