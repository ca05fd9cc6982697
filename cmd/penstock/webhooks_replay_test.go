//go:build cgo && duckdb_arrow

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

// TestReplayFindsAnEventByID replays an event that the store returns only on the second page, because the events before
// it fill the first page of 16 MiB.
func TestReplayFindsAnEventByID(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "pipelines.yaml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `version: 1
sources: {main: {app: {base_url: "http://127.0.0.1:1", auth: {token: t}}}}
destinations: {warehouse: "duckdb:%[1]s/warehouse.duckdb"}
pipelines: {all: {from: main, to: [warehouse], streams: [crm.leads]}}
state: %[1]s/state
`, dir), 0o600))
	b, err := state.OpenInbox(t.Context(), filepath.Join(dir, "state"), state.InboxOptions{})
	require.NoError(t, err)
	for n := range 18 {
		_, err := b.Append(t.Context(), state.Event{
			Source: "main", ID: fmt.Sprint("evt_", n+1), Received: time.Now(), Scheme: "hex",
			Body: fmt.Appendf(nil, `{"n":%d,"text":%q}`, n, bytes.Repeat([]byte("x"), 1<<20)),
		})
		require.NoError(t, err)
	}
	require.NoError(t, b.Close())
	penstock := func(args ...string) string {
		var out bytes.Buffer
		runCommand(t.Context(), append(args, "-c", config, "--no-progress"), &out, &out)
		return out.String()
	}
	require.Contains(t, penstock("webhooks", "list", "--json"), `"id":"evt_18"`)
	require.Contains(t, penstock("webhooks", "replay", "--dead", "--id", "evt_18"), `no event matches --id "evt_18" and the other flags`)
	require.Contains(t, penstock("webhooks", "replay", "--id", "evt_19"), `the inbox has no event with the id "evt_19"`)
	require.Contains(t, penstock("webhooks", "replay", "--id", "evt_18"), "1 event appended to the inbox again\n")
}
