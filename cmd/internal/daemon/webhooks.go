package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/execute"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/receive"
	"github.com/penstock-data/penstock/state"
)

// Webhooks receives the webhooks of a daemon. Its inbox stores them until they are applied.
type Webhooks struct {
	Inbox    state.Inbox
	Receiver *Receiver // nil before Mount

	executor *execute.Executor
	trimmer  *InboxTrimmer // trimmer of the current configuration; nil before the first configuration
}

// OpenWebhooks opens the inbox. Only one daemon at a time may use the inbox of a state folder.
func OpenWebhooks(ctx context.Context, x *execute.Executor, c *config.Config) (*Webhooks, error) {
	in, err := x.Open.State(c).OpenInbox(ctx, state.InboxOptions{})
	switch {
	case err == nil:
		return &Webhooks{Inbox: in, executor: x}, nil
	case errors.Is(err, state.ErrLocked), errors.Is(err, syscall.ENOSPC):
		return nil, err
	}
	return nil, open.StateTrouble(err)
}

// Mount adds the receiver to the daemon.
func (h *Webhooks) Mount(ctx context.Context, d *serve.Daemon, c *config.Config) (err error) {
	h.Receiver, err = NewReceiver(ctx, c, h.executor.Open.State(c).Notes(), receive.Options{
		Inbox:    h.Inbox,
		Observe:  func(v serve.WebhookSeen) { d.Observe(v) },
		Received: d.Received,
		Hinted:   d.Hinted,
		Log:      h.executor.Open.Log,
		Now:      h.executor.Open.State(c).Now,
	})
	d.Handlers.Webhooks = h.Receiver
	return err
}

// Run starts a goroutine that applies newly learned signature schemes, until ctx ends or the returned function is
// called.
func (h *Webhooks) Run(ctx context.Context) (wait func()) {
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	all.Go(func() { h.Receiver.Watch(ctx) })
	return func() { cancel(); all.Wait() }
}

// Applies gives each pipeline the functions that apply webhook events, if one of its sources has webhooks.
func (h *Webhooks) Applies(c *config.Config, all []serve.Pipeline) {
	h.trimmer.End() // the old appliers may still run, and would remove events that the new pipelines need
	h.trimmer = NewInboxTrimmer(c)
	t := h.trimmer
	for i := range all {
		p, _ := c.Pipeline(all[i].Name)
		var each appliers
		for _, from := range p.From {
			if s, ok := c.Source(from.Text); ok && s.Webhooks != nil {
				each = append(each, t.Applier(h.executor, c, p.ForSource(from.Text), h.Inbox))
			}
		}
		all[i].Hinted = ReadOnHint(c, p)
		if each != nil {
			all[i].Deltas, all[i].Close, all[i].Concurrent = each.apply, each.close, true
		}
	}
}

// Close closes the inbox. Its content stays.
func (h *Webhooks) Close() error {
	if err := h.Inbox.Close(); err != nil {
		return fmt.Errorf("close inbox: %w", err)
	}
	return nil
}
