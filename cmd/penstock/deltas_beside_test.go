//go:build cgo && duckdb_arrow

package main

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/cmd/internal/daemon"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/cmd/internal/open"
	"github.com/penstock-data/penstock/extract/sandbox"
	"github.com/penstock-data/penstock/state"
)

// TestWebhooksUpdateBothTables: v2_contacts is filled from a list, and v2_contact by one request for each contact. An
// event about a contact changes both tables, and the next run finds both up to date.
func TestWebhooksUpdateBothTables(t *testing.T) {
	t.Parallel()
	onEach(t, testWebhooksUpdateBothTables)
}

func testWebhooksUpdateBothTables(t *testing.T, to target) {
	t.Parallel()
	p := newPlatform(t, sandbox.Options{NoLimits: true}, `["v2.contacts", "v2.contact"]`, to)
	code, out, errs := p.penstock(t, "sync")
	require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
	b, err := state.OpenInbox(t.Context(), filepath.Join(p.dir, "state"), state.InboxOptions{})
	require.NoError(t, err)
	defer b.Close()
	contacts := p.ids(t, "v2.contacts")
	p.write(t, "PUT", "/v2/contacts/"+contacts[0], `{"name":"Renamed"}`)
	p.announce(t, b, "contact.updated", contacts[0])
	p.write(t, "DELETE", "/v2/contacts/"+contacts[1], "")
	p.announce(t, b, "contact.deleted", contacts[1])
	var said bytes.Buffer
	a := &app{out: &said, err: &said, log: slog.New(slog.DiscardHandler), open: open.Opener{File: p.config(), Log: slog.New(slog.DiscardHandler), Kinds: destinationKinds()}}
	c, err := a.open.Load()
	require.NoError(t, err)
	_, err = applyOne(t.Context(), a, c.Pipelines[0].Name, daemon.NewInboxTrimmer(c).Applier(a.executor(c), c, c.Pipelines[0], b))
	require.NoError(t, err)
	w := to.open(t)
	for _, table := range []string{"v2_contacts", "v2_contact"} {
		require.EqualValues(t, 1, w.count(t, "SELECT count(*) FROM "+table+" WHERE _penstock_via = 'webhook' AND name = 'Renamed'"), table)
		require.EqualValues(t, 1, w.count(t, "SELECT count(*) FROM "+table+" WHERE _penstock_deleted_at IS NOT NULL"), table)
	}
	require.NoError(t, w.db.Close())
	code, out, errs = p.penstock(t, "sync")
	require.Equal(t, failure.ExitDone, code, "%s\n%s", out, errs)
	if d := p.compare(t); len(d) > 0 {
		t.Fatal(strings.Join(d, "\n"))
	}
	w = to.open(t)
	defer w.db.Close()
	require.EqualValues(t, 1, w.count(t, "SELECT count(*) FROM v2_contact WHERE _penstock_via = 'webhook' AND name = 'Renamed'"), "the next run has nothing to write")
}
