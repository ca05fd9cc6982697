package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/penstock-data/penstock/load"
)

// A process that is frozen or cut off in the middle of a transaction keeps its locks:
// of the stream's row, and of tables that other sources share. Between two statements
// the server itself ends such a session, by its idle_in_transaction_session_timeout
// (https://www.postgresql.org/docs/current/runtime-config-client.html); whoever is
// alive says so meanwhile. In the middle of a COPY the server waits for more rows
// without end, and whoever waits for the locks sees to it. // Invariant 13

// keepalive gives the server signs of life while a transaction waits for its next call,
// which may be for as long as its source likes.
type keepalive struct {
	mu    sync.Mutex // held while the session is used
	timer *time.Timer
}

// signs is how many signs of life are given in [Options].Silence.
const signs = 3

// awake has the session for one call of x, until asleep is called.
func (x *tx) awake() (asleep func()) {
	x.vigil.mu.Lock()
	if x.vigil.timer != nil {
		x.vigil.timer.Stop()
	}
	return func() {
		defer x.vigil.mu.Unlock()
		if x.s != nil && !x.over {
			x.vigil.timer = time.AfterFunc(x.db.o.Silence/signs, x.sign)
		}
	}
}

// sign gives a sign of life. Should the connection be lost, the next call shows it; that
// waits for no more than [rollbackGrace]. // Invariant 15
func (x *tx) sign() {
	if !x.vigil.mu.TryLock() {
		return // a call is under way, and another sign follows it
	}
	defer x.vigil.mu.Unlock()
	if x.s == nil || x.over {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollbackGrace)
	defer cancel()
	if x.s.run(ctx, "SELECT 1") == nil {
		x.vigil.timer.Reset(x.db.o.Silence / signs)
	}
}

// stalledCopy is a COPY that was seen to stand still.
type stalledCopy struct {
	at    string // how far it has come
	since time.Time
}

// standing finds sessions of ours in the middle of a COPY that hold locks in the schema.
// Servers before 14 cannot tell.
func (d *DB) standing(ctx context.Context, s *session) (map[string]string, error) {
	found := map[string]string{}
	err := s.query(ctx, "SELECT p.pid, a.query_start::text || ' ' || p.bytes_processed::text FROM pg_catalog.pg_stat_progress_copy p JOIN pg_catalog.pg_stat_activity a ON a.pid = p.pid "+
		"WHERE p.command = 'COPY FROM' AND a.usename = current_user AND a.datname = pg_catalog.current_database() AND EXISTS ("+
		"SELECT FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid = l.relation WHERE l.pid = p.pid AND l.granted AND c.relname = "+literal(load.State.Name)+
		" AND c.relnamespace = (SELECT oid FROM pg_catalog.pg_namespace WHERE nspname = "+literal(d.o.Schema)+"))",
		func(v [][]byte) error {
			found[string(v[0])] = string(v[1])
			return nil
		})
	return found, err
}

// unstall ends sessions whose COPY has stood still for [Options].Silence. Called by
// those who have waited for a lock in vain, it needs to see them twice.
func (d *DB) unstall(ctx context.Context) {
	s, err := d.acquire(ctx)
	if err != nil {
		return
	}
	defer s.release()
	found, err := d.standing(ctx, s)
	if err != nil {
		d.o.Log.Debug("postgres: who stands still is not known", "error", err)
		return
	}
	for _, pid := range d.stalled(found, time.Now()) {
		if err := s.run(ctx, "SELECT pg_catalog.pg_terminate_backend("+pid+")"); err != nil {
			d.o.Log.Warn("postgres: a session that stands still in the middle of a COPY keeps others waiting, and cannot be ended", "pid", pid, "error", err)
			continue
		}
		d.o.Log.Warn("postgres: ended a session that stood still in the middle of a COPY and kept others waiting; its process is frozen or cut off", "pid", pid, "silence", d.o.Silence)
	}
}

// stalled are those of found that have not moved for [Options].Silence.
func (d *DB) stalled(found map[string]string, now time.Time) (pids []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := map[string]stalledCopy{}
	for pid, at := range found {
		was := d.stalls[pid]
		if was.at != at {
			was = stalledCopy{at, now}
		}
		if seen[pid] = was; now.Sub(was.since) >= d.o.Silence {
			pids = append(pids, pid)
		}
	}
	d.stalls = seen
	return pids
}
