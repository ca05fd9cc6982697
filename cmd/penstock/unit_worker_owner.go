package main

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
)

// otherHostPause returns how long to wait before a unit is tried again if its destination belongs to
// another host, which then executes it; otherwise 0. If the path has no owner yet, this host becomes its
// owner. // Invariant 13
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
