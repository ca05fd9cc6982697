package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/penstock-data/penstock/load"
)

// A process that freezes or loses its network during a transaction keeps its locks: on the stream's row, and on
// tables that other sources share. Between two statements, the server ends such a session by
// idle_in_transaction_session_timeout (https://www.postgresql.org/docs/current/runtime-config-client.html). A process
// that still runs sends short queries so that this does not happen. During a COPY, the server waits for more rows
// without limit. So another process that waits for the locks terminates the session. // Invariant 13

// keepalive keeps the session alive between two calls of a transaction's methods. How long that takes depends on the
// source.
type keepalive struct {
	mu    sync.Mutex // held while the session is used
	timer *time.Timer
}

// pingsPerSilence is the number of keepalive queries per [Options].IdleTimeout.
const pingsPerSilence = 3

// reserveSession reserves the session for one call of a method of x, until the function done is called.
func (x *tx) reserveSession() (done func()) {
	x.keepalive.mu.Lock()
	if x.keepalive.timer != nil {
		x.keepalive.timer.Stop()
	}
	return func() {
		defer x.keepalive.mu.Unlock()
		if x.s != nil && !x.over {
			x.keepalive.timer = time.AfterFunc(x.db.o.IdleTimeout/pingsPerSilence, x.ping)
		}
	}
}

// ping sends a keepalive query. If the connection is lost, ping takes at most [rollbackGrace], and the next call on
// the transaction reports the loss. // Invariant 15
func (x *tx) ping() {
	if !x.keepalive.mu.TryLock() {
		return // a call is running, and schedules the next query
	}
	defer x.keepalive.mu.Unlock()
	if x.s == nil || x.over {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollbackGrace)
	defer cancel()
	if x.s.run(ctx, "SELECT 1") == nil {
		x.keepalive.timer.Reset(x.db.o.IdleTimeout / pingsPerSilence)
	}
}

// stalledCopy is the progress of a COPY when it was last seen.
type stalledCopy struct {
	at    string    // start of the statement and bytes processed
	since time.Time // when this progress was seen first
}

// runningCopies finds sessions of penstock's role that run a COPY and hold locks on the schema's _penstock_state. It
// returns their progress by process id. Postgres before version 14 does not report the progress, so the query fails
// there.
func (d *DB) runningCopies(ctx context.Context, s *session) (map[string]string, error) {
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

// terminateStalled terminates sessions whose COPY has made no progress for [Options].IdleTimeout. It is called after a
// session has waited too long for a lock. A COPY counts from the first call that saw it, so at least two calls are
// needed.
func (d *DB) terminateStalled(ctx context.Context) {
	s, err := d.acquire(ctx)
	if err != nil {
		return
	}
	defer s.release()
	found, err := d.runningCopies(ctx, s)
	if err != nil {
		d.o.Log.Debug("postgres: cannot find stalled sessions", "error", err)
		return
	}
	for _, pid := range d.stalled(found, time.Now()) {
		if err := s.run(ctx, "SELECT pg_catalog.pg_terminate_backend("+pid+")"); err != nil {
			d.o.Log.Warn("postgres: cannot terminate a session that stalled in a COPY and blocks others", "pid", pid, "error", err)
			continue
		}
		d.o.Log.Warn("postgres: terminated a session that stalled in a COPY and blocked others; its process is frozen or disconnected", "pid", pid, "silence", d.o.IdleTimeout)
	}
}

// stalled returns the process ids of the sessions in found that have made no progress for [Options].IdleTimeout. The
// map found has the progress by process id.
func (d *DB) stalled(found map[string]string, now time.Time) (pids []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	seen := map[string]stalledCopy{}
	for pid, at := range found {
		was := d.lastCopies[pid]
		if was.at != at {
			was = stalledCopy{at, now}
		}
		if seen[pid] = was; now.Sub(was.since) >= d.o.IdleTimeout {
			pids = append(pids, pid)
		}
	}
	d.lastCopies = seen
	return pids
}
