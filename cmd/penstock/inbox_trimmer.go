package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/penstock-data/penstock/cmd/internal/config"
)

// trimAgain is when events that could not be taken out of the inbox are tried again.
const trimAgain = 30 * time.Second

// trimmer is what events are taken out of; state.Inbox is one.
type trimmer interface {
	Trim(ctx context.Context, source string, through int64) error
}

// inboxTrimmer takes events out of the inbox once every pipeline of their source has
// them in every destination: the pipelines of one configuration. It is safe for
// concurrent use. // Invariant 3
type inboxTrimmer struct {
	mu      sync.Mutex
	through map[string]map[string]int64 // by source and pipeline
	trimmed map[string]int64            // by source
	ended   bool
}

// newTrims knows which pipelines read which source.
func newTrims(c *config.Config) *inboxTrimmer {
	t := &inboxTrimmer{through: map[string]map[string]int64{}, trimmed: map[string]int64{}}
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

// end has nothing taken out any more: another configuration holds, which may have
// pipelines that need what those of this one do not.
func (t *inboxTrimmer) end() {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
}

// applied notes how far a pipeline is, as it says itself each time. What could not
// be taken out is tried again by the next call.
func (t *inboxTrimmer) applied(ctx context.Context, inbox trimmer, source, pipeline string, through int64) error {
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
		return fmt.Errorf("take applied events of %s out of the inbox: %w", source, err)
	}
	t.trimmed[source] = now
	return nil
}
