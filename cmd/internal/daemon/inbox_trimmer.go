package daemon

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/execute"
	"github.com/penstock-data/penstock/state"
)

// trimmer is the part of state.Inbox that removes events.
type trimmer interface {
	Trim(ctx context.Context, source string, through int64) error
}

// InboxTrimmer removes events from the inbox. It removes an event when every pipeline that reads the event's source has
// applied it in every destination. It knows the pipelines of one configuration. It is safe for concurrent
// use. // Invariant 3
type InboxTrimmer struct {
	mu      sync.Mutex
	through map[string]map[string]int64 // number of the last applied event, by source and pipeline
	trimmed map[string]int64            // number of the last removed event, by source
	ended   bool
}

// NewInboxTrimmer returns a trimmer for the pipelines of c.
func NewInboxTrimmer(c *config.Config) *InboxTrimmer {
	t := &InboxTrimmer{through: map[string]map[string]int64{}, trimmed: map[string]int64{}}
	for _, p := range c.Pipelines {
		for _, from := range p.From {
			if t.through[from.Text] == nil {
				t.through[from.Text] = map[string]int64{}
			}
			t.through[from.Text][p.Name] = 0
		}
	}
	return t
}

// End stops the removal of events. The daemon calls it before it uses a new configuration, because the new pipelines
// may need events that the old pipelines have already applied.
func (t *InboxTrimmer) End() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

// Applier returns an applier for the events of a pipeline's source. The applier reports to the trimmer which events it
// has applied.
func (t *InboxTrimmer) Applier(x *execute.Executor, c *config.Config, p config.Pipeline, inbox state.Inbox) *execute.Applier {
	return x.NewApplier(c, p, inbox, func(ctx context.Context, through int64) error {
		return t.Applied(ctx, inbox, p.From[0].Text, p.Name, through)
	})
}

// Applied records that a pipeline has applied the events of a source up to a number. It removes the events that no
// pipeline needs any more. If the removal fails, the next call of Applied tries again.
func (t *InboxTrimmer) Applied(ctx context.Context, inbox trimmer, source, pipeline string, through int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.through[source]
	if _, reads := all[pipeline]; !reads || t.ended {
		return nil
	}
	all[pipeline] = max(all[pipeline], through)
	now := slices.Min(slices.Collect(maps.Values(all)))
	if now <= t.trimmed[source] {
		return nil
	}
	if err := inbox.Trim(ctx, source, now); err != nil {
		return fmt.Errorf("remove applied events of %s from the inbox: %w", source, err)
	}
	t.trimmed[source] = now
	return nil
}
