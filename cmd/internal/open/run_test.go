package open

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/config"
)

// Pipelines share the events of a source. So no pipeline removes events that another pipeline of the source keeps.
func TestKeepEvents(t *testing.T) {
	t.Parallel()
	reads := func(keep time.Duration, sources ...string) (p config.Pipeline) {
		for _, s := range sources {
			p.From = append(p.From, config.Ref{Text: s})
		}
		p.Keep = keep
		return p
	}
	c := &config.Config{Pipelines: []config.Pipeline{
		reads(2*time.Hour, "acme", "globex"), reads(time.Hour, "acme"), reads(0, "initech"), reads(time.Hour, "initech"),
	}}
	for source, want := range map[string]time.Duration{"acme": 2 * time.Hour, "globex": 2 * time.Hour, "initech": 0} {
		require.Equal(t, want, KeepEvents(c, source), source)
	}
}
