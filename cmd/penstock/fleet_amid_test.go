//go:build unix && cgo && duckdb_arrow

package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A worker has the lease of a source while it reads the source. If `serve` receives events in the meantime, the worker
// applies them, because `serve` cannot get the lease. // Invariants 3, 13
func TestFleetEventsDuringUnits(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three processes")
	}
	r := newEventFleet(t)
	for _, p := range r.serves {
		p.kill()
	}
	text, err := os.ReadFile(r.config())
	require.NoError(t, err)
	all := strings.NewReplacer("[v2.contacts]", "[v2.contacts, crm.leads]", "@yearly", "@every 2s").Replace(string(text))
	require.NoError(t, os.WriteFile(r.config(), []byte(all), 0o600))
	asked, release := r.hold("ws000")
	r.serves = []*fleetProcess{r.start("serve", "--slots", "0")}
	worker := r.start("worker")
	<-asked
	run := r.text("SELECT min(run) FROM units WHERE state = 'running'")
	r.until("SELECT count(*) FROM units WHERE run = '"+run+"' AND part = 'v2.contacts' AND state = 'done'", "1")
	r.rename(r.ids[0], "amid units")
	r.deliver(t.Context(), 1, r.ids[0])
	r.until("SELECT name FROM ws_ws000.v2_contacts WHERE id::text = '"+r.ids[0]+"'", "amid units")
	require.Equal(t, "1", r.text("SELECT count(*) FROM units WHERE run = '"+run+"' AND state = 'running'"), "the worker is still reading the source")
	release()
	r.until("SELECT status FROM runs WHERE run = '"+run+"'", "complete")
	r.serves[0].end(t)
	worker.end(t)
	require.Equal(t, "webhook", r.text("SELECT _penstock_via FROM ws_ws000.v2_contacts WHERE id::text = '"+r.ids[0]+"'"))
}
