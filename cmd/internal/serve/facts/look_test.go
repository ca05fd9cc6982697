package facts

import (
	"context"
	"io/fs"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/cmd/internal/serve"
	"github.com/penstock-data/penstock/cmd/internal/serve/board"
	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/state"
)

type slow struct{ load.Destination }

func (slow) Scan(_ context.Context, table string, _ []string, _ func(arrow.RecordBatch) error) error {
	if table == load.Certificates.Name {
		time.Sleep(10 * time.Second)
	}
	return nil
}

func (slow) Close() error { return nil }

// Reads of a slow destination take at most a tenth of the time.
func TestLooksTakeATenth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Config{Log: slog.New(slog.DiscardHandler)}, &board.Feed{})
		looks := 0
		var last time.Time
		lake := DestinationPart{Name: "lake", Open: func(context.Context) (load.Destination, error) {
			time.Sleep(time.Second) // opening waits for another process, which does not count as reading
			looks, last = looks+1, time.Now()
			return slow{}, nil
		}}
		var all sync.WaitGroup
		for range 3600 {
			all.Go(func() { f.lookAt(t.Context(), lake) })
			time.Sleep(time.Second)
		}
		asked := time.Now().Add(-time.Second)
		all.Wait()
		require.False(t, last.Before(asked))
		require.LessOrEqual(t, looks, 3600/101+2)
		require.GreaterOrEqual(t, looks, 3600/101)
		time.Sleep(lookEvery)
	})
}

func TestLooksAtWhatWasWritten(t *testing.T) {
	journal, err := state.OpenJournal(t.Context(), t.TempDir())
	require.NoError(t, err)
	defer journal.Close()
	looked := map[string]*atomic.Int64{"lake": {}, "often": {}}
	var places []DestinationPart
	for name, n := range looked {
		places = append(places, DestinationPart{Name: name, Open: func(context.Context) (load.Destination, error) {
			n.Add(1)
			return nil, fs.ErrNotExist
		}})
	}
	f := New(Config{Destinations: func() []DestinationPart { return places }, Journal: journal, Log: slog.New(slog.DiscardHandler)}, &board.Feed{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	run := func(context.Context, serve.RunRequest) (pipeline.Report, error) { return pipeline.Report{}, nil }
	d := serve.New(serve.Config{Listener: l, Journal: journal, Observers: []serve.Observer{f}, Pipelines: []serve.Pipeline{
		{Name: "all", Destinations: []string{"lake"}, Run: run}, {Name: "beat", Destinations: []string{"often"}, Run: run},
	}})
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	f.Attach(d)
	all.Go(func() { require.NoError(t, d.Run(ctx)) })
	all.Go(func() { f.Refresh(ctx) })
	<-f.first
	for want := int64(2); want < 5; want++ {
		require.Eventually(t, func() bool {
			_, err := d.RunNow("beat", serve.RunRequest{Trigger: serve.TriggerManual})
			return err == nil
		}, time.Minute, time.Millisecond)
		require.Eventually(t, func() bool { return looked["often"].Load() >= want }, time.Minute, time.Millisecond)
	}
	require.EqualValues(t, 1, looked["lake"].Load())
	stop()
	all.Wait()
}
