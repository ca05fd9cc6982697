//go:build cgo && duckdb_arrow

package main

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/daemon"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/cmd/internal/pipeline"
	"github.com/penstock-data/penstock/extract"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/schemas"
	"github.com/penstock-data/penstock/state"
)

// slowSource calls its function stop() once: after it has read the last page of a list, and before it returns that
// page.
type slowSource struct {
	*extract.Client
	stop func()
}

func (s *slowSource) Pages(ctx context.Context, of schemas.Stream, from state.Cursor) iter.Seq2[extract.Page, error] {
	return func(yield func(extract.Page, error) bool) {
		for page, err := range s.Client.Pages(ctx, of, from) {
			if err == nil && page.End != nil && s.stop != nil {
				stop := s.stop
				s.stop = nil
				stop()
			}
			if !yield(page, err) {
				return
			}
		}
	}
}

// TestWebhooksDuringARun: while a stream is being read, events about its records are applied. Pages that were read
// before an event do not overwrite its rows.
func TestWebhooksDuringARun(t *testing.T) {
	t.Parallel()
	onEach(t, testWebhooksDuringARun)
}

func testWebhooksDuringARun(t *testing.T, to target) {
	t.Parallel()
	p := newPlatform(t, sandbox.Options{NoLimits: true}, `["v2.contacts"]`, to)
	code, out, errs := p.penstock(t, "sync")
	require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
	b, err := state.OpenInbox(t.Context(), filepath.Join(p.dir, "state"), state.InboxOptions{})
	require.NoError(t, err)
	defer b.Close()
	a := &app{out: io.Discard, err: io.Discard, log: slog.New(slog.DiscardHandler), open: open.Opener{File: p.config(), Log: slog.New(slog.DiscardHandler), Pool: open.NewDestinationPool(), Kinds: destinationKinds()}}
	c, err := a.open.Load()
	require.NoError(t, err)
	x := daemon.NewInboxTrimmer(c).Applier(a.executor(c), c, c.Pipelines[0], b)
	defer x.Close()
	settled := func() {
		require.Eventually(t, func() bool {
			got, err := x.Apply(t.Context())
			require.NoError(t, err)
			return got.Waiting == 0 && got.ApplyAfter == 0
		}, time.Minute, 100*time.Millisecond)
	}
	settled() // the first call starts the applier: while it runs, a pass lets it commit events between two commits of the pass

	r, err := a.open.Pipeline(t.Context(), c, c.Pipelines[0], nil, false)
	require.NoError(t, err)
	defer r.Close()
	ids := p.ids(t, "v2.contacts")
	first, last := ids[0], ids[len(ids)-1]
	cfg := r.Config()
	cfg.Locks, cfg.GroupBytes = a.open.Locks.StreamLocks("all"), 1 // each page is a commit
	cfg.Source = &slowSource{r.Source.Client, func() {
		for _, id := range []string{first, last} {
			p.write(t, "PUT", "/v2/contacts/"+id, `{"name":"Amid"}`)
			p.announce(t, b, "contact.updated", id)
		}
		p.write(t, "DELETE", "/v2/contacts/"+ids[1], "")
		p.announce(t, b, "contact.deleted", ids[1])
		applied := 0
		require.Eventually(t, func() bool {
			got, err := x.Apply(t.Context())
			require.NoError(t, err)
			applied += got.Applied
			return got.Waiting == 0 && applied >= 3
		}, time.Minute, 100*time.Millisecond)
	}}
	rep, err := pipeline.Run(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, pipeline.StatusComplete, rep.Status, "%v", rep.Err)
	require.Nil(t, cfg.Source.(*slowSource).stop, "stop must have been called")
	w := to.open(t)
	require.EqualValues(t, 2, w.count(t, "SELECT count(*) FROM v2_contacts WHERE name = 'Amid' AND _penstock_via = 'webhook'"))
	require.EqualValues(t, 1, w.count(t, "SELECT count(*) FROM v2_contacts WHERE _penstock_deleted_at IS NOT NULL"))
	require.NoError(t, w.db.Close())
	settled()
	if d := p.compare(t); len(d) > 0 {
		t.Fatal(strings.Join(d, "\n"))
	}
}
