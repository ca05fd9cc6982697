//go:build unix && cgo && duckdb_arrow

package main

import (
	"net/http"
	"sync"
	"testing"
)

// Six workspaces do not answer. They use up the worker's regular slot, and then its three additional slots. After a
// while the worker postpones their units, so that it can read the seventh workspace. When the six workspaces answer at
// last, the worker reads them too.
// Invariant 15
func TestFleetSilentSources(t *testing.T) {
	if testing.Short() {
		t.Skip("waits until postponed units are retried")
	}
	r := newFleet(t, 7, "@every 5s")
	free := make(chan struct{})
	release := sync.OnceFunc(func() { close(free) })
	t.Cleanup(release)
	for _, name := range r.made[:6] { // the worker has only four slots: one regular slot and three additional slots
		r.odd[name] = func(rw http.ResponseWriter, q *http.Request) {
			select {
			case <-free:
			case <-q.Context().Done():
				return
			}
			http.StripPrefix("/"+name, r.of(name)).ServeHTTP(rw, q)
		}
	}
	serve, worker := r.start("serve", "--slots", "0"), r.start("worker", "--slots", "1")
	r.until("SELECT count(*) FROM units WHERE source = 'ws006' AND run = (SELECT min(run) FROM units) AND state = 'done'", "3")
	run := r.text("SELECT min(run) FROM units")
	r.until("SELECT count(DISTINCT source) >= 3 FROM units WHERE run = '"+run+"' AND (convert_from(report, 'UTF8')::jsonb ->> 'round')::int > 0", "true")
	release()
	r.until("SELECT status FROM runs WHERE run = '"+run+"'", "complete")
	serve.end(t)
	r.until("SELECT count(*) FROM units WHERE state IN ('waiting', 'running', 'parked')", "0")
	worker.end(t)
	r.whole()
}
