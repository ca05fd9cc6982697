package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/penstock-data/penstock/load"
)

// A process may be suspended or lose its network during a transaction. Then the session of this process keeps its locks
// on the stream's row and on tables that other sources share. Two mechanisms end such a session:
//
//  - Between two statements, the server ends an idle session after idle_in_transaction_session_timeout
//    (https://www.postgresql.org/docs/current/runtime-config-client.html). A process that is working sends keepalive
//    queries, so its session is never idle for so long.
//  - During a COPY, the server waits for rows without a time limit. So another process that waits for the locks
//    terminates the session.
//
// Invariant 13

// keepalive keeps the session alive between two calls of a transaction's methods. If the source is slow, the time
// between two calls can be long.
type keepalive struct {
	mu    sync.Mutex // locked while the session is in use
	timer *time.Timer
}

// pingsPerSilence is how many keepalive queries are sent within [Options].IdleTimeout.
const pingsPerSilence = 3

// reserveSession reserves the session for one call of a method of x. The caller calls done at the end.
func (x *tx) reserveSession() (done func()) {
	x.keepalive.mu.Lock()
	if x.keepalive.timer != nil {
		x.keepalive.timer.Stop()
	}
	return func() {
		defer x.keepalive.mu.Unlock()
		if x.s != nil {
			x.keepalive.timer = time.AfterFunc(x.b.o.IdleTimeout/pingsPerSilence, x.ping)
		}
	}
}

// ping sends a keepalive query. If the connection is lost, ping takes at most [rollbackGrace]. The next call of a
// method then reports the lost connection. // Invariant 15
func (x *tx) ping() {
	if !x.keepalive.mu.TryLock() {
		return // a method is running; at its end, it schedules the next keepalive query
	}
	defer x.keepalive.mu.Unlock()
	if x.s == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), rollbackGrace)
	defer cancel()
	if x.s.run(ctx, "SELECT 1") == nil {
		x.keepalive.timer.Reset(x.b.o.IdleTimeout / pingsPerSilence)
	}
}

// stalledCopy is the last known progress of a COPY.
type stalledCopy struct {
	at    string    // start of the statement, and number of bytes processed
	since time.Time // when this progress was first seen
}

// runningCopies finds sessions of penstock's role that run a COPY and hold locks on _penstock_state. It returns the
// progress of each COPY by the process id of its session. Postgres reports this progress since version 14. With an
// earlier server, the query fails.
func (p *pool) runningCopies(ctx context.Context, s *session) (map[string]string, error) {
	found := map[string]string{}
	err := s.query(ctx, "SELECT p.pid, a.query_start::text || ' ' || p.bytes_processed::text FROM pg_catalog.pg_stat_progress_copy p JOIN pg_catalog.pg_stat_activity a ON a.pid = p.pid "+
		"WHERE p.command = 'COPY FROM' AND a.usename = current_user AND a.datname = pg_catalog.current_database() AND EXISTS ("+
		"SELECT FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid = l.relation WHERE l.pid = p.pid AND l.granted AND c.relname = "+literal(load.State.Name)+
		" AND "+inSchema("c.relnamespace", p.o.Schema)+")",
		func(v [][]byte) error {
			found[string(v[0])] = string(v[1])
			return nil
		})
	return found, err
}

// terminateStalled terminates sessions whose COPY has made no progress for [Options].IdleTimeout. It runs when a
// session has waited too long for a lock. The first call that finds a COPY only notes its progress. A later call
// compares the progress. So at least two calls are needed before a session is terminated.
func (p *pool) terminateStalled(ctx context.Context) {
	s, err := p.acquire(ctx)
	if err != nil {
		return
	}
	defer s.release()
	found, err := p.runningCopies(ctx, s)
	if err != nil {
		p.o.Log.Debug("postgres: cannot find stalled sessions", "error", err)
		return
	}
	for _, pid := range p.stalled(found, time.Now()) {
		if err := s.run(ctx, "SELECT pg_catalog.pg_terminate_backend("+pid+")"); err != nil {
			p.o.Log.Warn("postgres: cannot terminate a session that stalled in a COPY and blocks others", "pid", pid, "error", err)
			continue
		}
		p.o.Log.Warn("postgres: terminated a session that stalled in a COPY and blocked others; its process is suspended or disconnected", "pid", pid, "silence", p.o.IdleTimeout)
	}
}

// stalled returns the process ids of sessions without progress for [Options].IdleTimeout. The parameter `copies` has
// the current progress of each session by process id.
func (p *pool) stalled(copies map[string]string, now time.Time) (pids []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	seen := map[string]stalledCopy{}
	for pid, at := range copies {
		was := p.copies[pid]
		if was.at != at {
			was = stalledCopy{at, now}
		}
		if seen[pid] = was; now.Sub(was.since) >= p.o.IdleTimeout {
			pids = append(pids, pid)
		}
	}
	p.copies = seen
	return pids
}
