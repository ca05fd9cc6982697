package daemon

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/config"
)

// trimming is a trimmer that records, for each call, the number of the last event to remove.
type trimming struct {
	through []int64
	err     error
}

func (n *trimming) Trim(_ context.Context, _ string, through int64) error {
	if n.err == nil {
		n.through = append(n.through, through)
	}
	return n.err
}

// readers returns a configuration of pipelines that read one source.
func readers(names ...string) *config.Config {
	c := &config.Config{}
	for _, name := range names {
		c.Pipelines = append(c.Pipelines, config.Pipeline{Name: name, From: []config.Ref{{Text: "main"}}})
	}
	return c
}

// If a removal fails, it is tried again, even if no pipeline has applied more events.
func TestInboxTrimmerRetries(t *testing.T) {
	full := errors.New("disk full")
	inbox, trims := &trimming{err: full}, NewInboxTrimmer(readers("a", "b"))
	require.NoError(t, trims.Applied(t.Context(), inbox, "main", "a", 7), "pipeline b still needs the events, so nothing is removed")
	require.ErrorIs(t, trims.Applied(t.Context(), inbox, "main", "b", 5), full)
	inbox.err = nil
	require.NoError(t, trims.Applied(t.Context(), inbox, "main", "a", 7))
	require.Equal(t, []int64{5}, inbox.through)
	require.NoError(t, trims.Applied(t.Context(), inbox, "main", "a", 7))
	require.Equal(t, []int64{5}, inbox.through, "events are removed only once")
}

// After a reload, the trimmer of the old configuration must not remove events that a new pipeline needs. A pipeline
// that is no longer configured must not keep events in the inbox.
func TestInboxTrimmerAfterReload(t *testing.T) {
	inbox, before := &trimming{}, NewInboxTrimmer(readers("a", "gone"))
	require.NoError(t, before.Applied(t.Context(), inbox, "main", "a", 9))
	require.Empty(t, inbox.through)
	now := NewInboxTrimmer(readers("a", "new"))
	before.End()
	require.NoError(t, before.Applied(t.Context(), inbox, "main", "gone", 9))
	require.Empty(t, inbox.through, "the new pipeline has not applied the events yet")
	require.NoError(t, now.Applied(t.Context(), inbox, "main", "gone", 9))
	require.NoError(t, now.Applied(t.Context(), inbox, "main", "a", 9))
	require.NoError(t, now.Applied(t.Context(), inbox, "main", "new", 8))
	require.Equal(t, []int64{8}, inbox.through)
}
