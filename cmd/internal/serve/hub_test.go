package serve

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
)

// Of streams that have ended, the hub keeps only sums. // Invariant 6
func TestHubOfManySources(t *testing.T) {
	h := NewHub()
	h.update("all", func(s *Status) { s.Running = &Running{Run: "r1"} })
	for i := range 1000 {
		source := fmt.Sprintf("ws%d", i)
		for _, e := range []pipeline.Event{
			{Kind: pipeline.EventStart}, {Kind: pipeline.EventPage, Records: 10, Requests: 2}, {Kind: pipeline.EventEnd, Report: &pipeline.StreamReport{Stream: "crm.leads"}},
		}[:3-i%2] {
			e.Source, e.Stream = source, "crm.leads"
			h.progress("all", "r1", e, time.Now())
		}
	}
	s, ok := h.Status("all")
	require.True(t, ok)
	require.Equal(t, Past{Streams: 500, Pages: 500, Requests: 1000, Records: 5000}, s.Running.Past)
	require.Len(t, s.Running.Streams, 500)
	require.Equal(t, []any{"ws1", "crm.leads", int64(10)}, []any{s.Running.Streams[0].Source, s.Running.Streams[0].Stream, s.Running.Streams[0].Records})
}
