//go:build cgo && duckdb_arrow

package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/penstock-data/penstock/cmd/internal/daemon"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/state"
)

// announce puts an event into the inbox, as the receiver does.
func (p *platform) announce(t *testing.T, b *state.InboxFile, kind, id string) {
	t.Helper()
	e := state.Event{Source: "main", ID: "evt_" + kind + "_" + id, Type: kind, Received: time.Now().Add(-time.Minute), Scheme: "hex"}
	if !strings.Contains(id, "_") { // the id is a number
		e.Body = fmt.Appendf(nil, `{"id":%q,"type":%q,"data":{"id":%s}}`, e.ID, kind, id)
	} else {
		e.Body = fmt.Appendf(nil, `{"id":%q,"type":%q,"data":{"id":%q}}`, e.ID, kind, id)
	}
	was, err := b.Append(t.Context(), e)
	require.NoError(t, err)
	require.Equal(t, state.Stored, was)
}

// TestWebhooksAreApplied: the tables show the changes that events announce, without a run. If a stream has no endpoint
// that returns one record by its id, its table shows the changes after the next run.
func TestWebhooksAreApplied(t *testing.T) {
	t.Parallel()
	onEach(t, testWebhooksAreApplied)
}

func testWebhooksAreApplied(t *testing.T, to target) {
	t.Parallel()
	p := newPlatform(t, sandbox.Options{NoLimits: true}, `["v2.contacts", "v2.tickets", "crm.deals", "sales.quotes"]`, to)
	code, out, errs := p.penstock(t, "sync")
	require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
	b, err := state.OpenInbox(t.Context(), filepath.Join(p.dir, "state"), state.InboxOptions{})
	require.NoError(t, err)
	defer b.Close()
	contacts, deals, tickets := p.ids(t, "v2.contacts"), p.ids(t, "crm.deals"), p.ids(t, "v2.tickets")
	p.write(t, "PUT", "/v2/contacts/"+contacts[0], `{"name":"Renamed 🦤"}`)
	p.announce(t, b, "contact.updated", contacts[0])
	p.write(t, "DELETE", "/v2/contacts/"+contacts[1], "")
	p.announce(t, b, "contact.deleted", contacts[1])
	p.write(t, "POST", "/v2/contacts", `{"name":"New","email":"new@example.test"}`)
	for _, id := range p.ids(t, "v2.contacts") {
		if !slices.Contains(contacts, id) {
			p.announce(t, b, "contact.created", id)
		}
	}
	p.write(t, "DELETE", "/api/deal/delete/"+deals[0], "")
	p.announce(t, b, "deal.deleted", deals[0])
	p.write(t, "PUT", "/v2/tickets/"+tickets[0], `{"status":"solved"}`)
	_, err = b.Append(t.Context(), state.Event{
		Source: "main", ID: "evt_ticket", Type: "ticket.updated", Received: time.Now().Add(-time.Minute), Scheme: "hex",
		Body: fmt.Appendf(nil, `{"id":"evt_ticket","type":"ticket.updated","data":{"id":%q,"subject":"By an event"}}`, tickets[0]),
	})
	require.NoError(t, err)
	p.announce(t, b, "gadget.updated", "7")

	var said bytes.Buffer
	a := &app{out: &said, err: &said, log: slog.New(slog.DiscardHandler), open: open.Opener{File: p.config(), Log: slog.New(slog.DiscardHandler), Kinds: destinationKinds()}}
	c, err := a.open.Load()
	require.NoError(t, err)
	x := daemon.NewInboxTrimmer(c).Applier(a.executor(c), c, c.Pipelines[0], b)
	waits, err := applyOne(t.Context(), a, c.Pipelines[0].Name, x)
	require.NoError(t, err)
	require.True(t, waits, "no endpoint returns one ticket by its id: %s", said.String())
	require.Contains(t, said.String(), "--stream v2.tickets")

	w := to.open(t)
	require.EqualValues(t, 2, w.count(t, "SELECT count(*) FROM v2_contacts WHERE _penstock_via = 'webhook'"))
	require.EqualValues(t, 1, w.count(t, "SELECT count(*) FROM v2_contacts WHERE _penstock_deleted_at IS NOT NULL"))
	require.Zero(t, w.count(t, "SELECT count(*) FROM v2_tickets WHERE subject = 'By an event'"), "the table must not show the event: the event arrived before this process started, so the last run may have read a newer record")
	require.EqualValues(t, 6, w.count(t, "SELECT count(*) FROM _penstock_events"))
	require.EqualValues(t, 1, w.count(t, "SELECT count(*) FROM _penstock_events WHERE state = 'unmapped'"))
	require.NoError(t, w.db.Close())
	left, err := b.Events(t.Context(), "main", 0, 10)
	require.NoError(t, err)
	require.Empty(t, left, "applied events leave the inbox")

	code, out, errs = p.penstock(t, "sync", "--stream", "v2.tickets", "--stream", "crm.deals")
	require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
	if d := p.compare(t); len(d) > 0 {
		t.Fatal(strings.Join(d, "\n"))
	}
	code, out, errs = p.penstock(t, "sync", "--stream", "v2.contacts")
	require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
	require.Regexp(t, `v2 +1 +118 +0 +118`, out, "the rows that were written from events equal the list")
}

// TestWebhooksDrain: a backlog of events is applied with few requests and few commits, and each event is in the table
// of events.
func TestWebhooksDrain(t *testing.T) {
	n := 2_000
	if many, err := strconv.Atoi(os.Getenv("PENSTOCK_TEST_TRIALS")); err == nil {
		n = 100 * many
	}
	to := duckTarget{t.TempDir()}
	p := newPlatform(t, sandbox.Options{NoLimits: true}, `["v2.contacts"]`, to)
	code, out, errs := p.penstock(t, "sync")
	require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
	b, err := state.OpenInbox(t.Context(), filepath.Join(p.dir, "state"), state.InboxOptions{})
	require.NoError(t, err)
	defer b.Close()
	ids := p.ids(t, "v2.contacts")
	var senders errgroup.Group
	senders.SetLimit(64)
	for i := range n {
		senders.Go(func() error {
			_, err := b.Append(t.Context(), state.Event{
				Source: "main", ID: fmt.Sprint("evt_", i), Type: "contact.updated", Received: time.Now().Add(-time.Minute), Scheme: "hex",
				Body: fmt.Appendf(nil, `{"id":"evt_%d","type":"contact.updated","data":{"id":%q}}`, i, ids[i%len(ids)]),
			})
			return err
		})
	}
	require.NoError(t, senders.Wait())
	a := &app{out: io.Discard, err: io.Discard, log: slog.New(slog.DiscardHandler), open: open.Opener{File: p.config(), Log: slog.New(slog.DiscardHandler), Kinds: destinationKinds()}}
	c, err := a.open.Load()
	require.NoError(t, err)
	began := time.Now()
	waits, err := applyOne(t.Context(), a, c.Pipelines[0].Name, daemon.NewInboxTrimmer(c).Applier(a.executor(c), c, c.Pipelines[0], b))
	require.NoError(t, err)
	require.False(t, waits)
	t.Logf("%d events applied in %s: %.0f a second", n, time.Since(began), float64(n)/time.Since(began).Seconds())
	w := to.open(t)
	defer w.db.Close()
	require.EqualValues(t, n, w.count(t, "SELECT count(DISTINCT ordinal) FROM _penstock_events"))
	require.EqualValues(t, n, w.count(t, "SELECT count(*) FROM _penstock_events"))
	left, err := b.Events(t.Context(), "main", 0, 10)
	require.NoError(t, err)
	require.Empty(t, left)
}
