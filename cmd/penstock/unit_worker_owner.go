package main

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
)

// otherHostPause returns 0 if this host may execute units of the pipeline. It returns ownerPause if another
// host owns a destination of the pipeline; that host then executes the units. If the path has no owner yet,
// this host becomes its owner. // Invariant 13
func (h *unitWorker) otherHostPause(ctx context.Context, c *config.Config, p config.Pipeline) (time.Duration, error) {
	err := h.claim(ctx, c, p)
	e, ok := errors.AsType[*elsewhereError](err)
	if !ok {
		return 0, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.logged == nil {
		h.logged = map[string]bool{}
	}
	if key := p.Key() + " " + e.owner.Name; !h.logged[key] {
		h.logged[key] = true // the call repeats, but is logged only once
		h.log.Info("runs left to another host", "pipeline", p.Name, "source", p.From[0].Text, "host", e.owner.Name, "reason", e)
	}
	return ownerPause, nil
}
