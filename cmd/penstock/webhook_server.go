package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/daemon"
	"github.com/penstock-data/penstock/cmd/internal/execute"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/receive"
	"github.com/penstock-data/penstock/state"
)

// webhookServer receives the webhooks of a daemon. Its inbox stores them until they are applied.
type webhookServer struct {
	a        *app
	inbox    state.Inbox
	receiver *daemon.Receiver
	trimmer  *daemon.InboxTrimmer // trimmer of the current configuration; nil before the first configuration
}

// newApplier returns an applier for the events of a pipeline's source. t removes the applied events from the inbox.
func (a *app) newApplier(c *config.Config, p config.Pipeline, inbox state.Inbox, t *daemon.InboxTrimmer) *execute.Applier {
	return a.executor(c).NewApplier(c, p, inbox, func(ctx context.Context, through int64) error {
		return t.Applied(ctx, inbox, p.From[0].Text, p.Name, through)
	})
}

// openWebhookServer opens the inbox. Only one daemon at a time may use the inbox of a state folder.
func openWebhookServer(ctx context.Context, a *app, c *config.Config) (*webhookServer, error) {
	in, err := a.open.State(c).OpenInbox(ctx, state.InboxOptions{})
	switch {
	case err == nil:
		return &webhookServer{a: a, inbox: in}, nil
	case errors.Is(err, state.ErrLocked), errors.Is(err, syscall.ENOSPC):
		return nil, err
	}
	return nil, open.StateTrouble(err)
}

// mount adds the receiver to the daemon.
func (h *webhookServer) mount(ctx context.Context, d *serve.Daemon, c *config.Config) (err error) {
	h.receiver, err = daemon.NewReceiver(ctx, c, h.a.open.State(c).Notes(), receive.Options{
		Inbox:    h.inbox,
		Observe:  func(v serve.WebhookSeen) { d.Observe(v) },
		Received: d.Received,
		Hinted:   d.Hinted,
		Log:      h.a.log,
		Now:      h.a.open.State(c).Now,
	})
	d.Handlers.Webhooks = h.receiver
	return err
}

// run starts to apply newly learned signature schemes, until ctx ends or wait is called.
func (h *webhookServer) run(ctx context.Context) (wait func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { h.receiver.Watch(ctx) })
	return func() { cancel(); all.Wait() }
}

// applies lets each pipeline apply the events of its sources that send webhooks.
func (h *webhookServer) applies(c *config.Config, all []serve.Pipeline) {
	h.trimmer.End() // its appliers may still run, and would remove events that the new pipelines need
	h.trimmer = daemon.NewInboxTrimmer(c)
	t := h.trimmer
	for i := range all {
		p, _ := c.Pipeline(all[i].Name)
		var each appliers
		for _, from := range p.From {
			if s, ok := c.Source(from.Text); ok && s.Webhooks != nil {
				each = append(each, h.a.newApplier(c, p.ForSource(from.Text), h.inbox, t))
			}
		}
		all[i].Hinted = daemon.ReadOnHint(c, p)
		if each != nil {
			all[i].Deltas, all[i].Close, all[i].Concurrent = each.apply, each.close, true
		}
	}
}

// close closes the inbox. Its content stays.
func (h *webhookServer) close() error {
	if err := h.inbox.Close(); err != nil {
		return fmt.Errorf("close inbox: %w", err)
	}
	return nil
}
