package main

import (
	"context"
	"errors"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
)

// elsewhere says how soon to come again for a unit that writes to a path of another
// host: it is left for that one. Where nobody has the path yet this host does from
// now on. // Invariant 13
func (h *unitWorker) elsewhere(ctx context.Context, c *config.Config, p config.Pipeline) (time.Duration, error) {
	err := h.claim(ctx, c, p)
	e, ok := errors.AsType[*elsewhereError](err)
	if !ok {
		return 0, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.left == nil {
		h.left = map[string]bool{}
	}
	if key := p.Key() + " " + e.owner.Name; !h.left[key] {
		h.left[key] = true // once is enough: it comes again and again
		h.log.Info("runs are left to another host", "pipeline", p.Name, "source", p.From[0].Text, "host", e.owner.Name, "reason", e)
	}
	return ownerPause, nil
}
