//go:build unix && cgo && duckdb_arrow

package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// While a worker reads many workspaces, it has at most 4 + slots/2 connections to the server that has the state and the
// tables. The same holds for its connections to a PgBouncer, which has only about half as many sessions of the server.
// The test logs how long the run takes.
func TestFleetConnections(t *testing.T) {
	workspaces, all := 24, []int{1, 2, 8, 16}
	if testing.Short() {
		workspaces, all = 6, []int{2}
	}
	if n, err := strconv.Atoi(os.Getenv("PENSTOCK_TEST_WORKSPACES")); err == nil {
		workspaces = n
	}
	for _, slots := range all {
		t.Run(fmt.Sprint(slots, " slots"), func(t *testing.T) { connectionsOf(t, workspaces, slots, false) })
		t.Run(fmt.Sprint(slots, " slots, PgBouncer"), func(t *testing.T) { connectionsOf(t, workspaces, slots, true) })
	}
}

// connectionsOf checks how many connections a worker with the given number of slots has at most.
func connectionsOf(t *testing.T, workspaces, slots int, pooled bool) {
	r := newFleet(t, workspaces, "@every 2s")
	serve := r.start("serve", "--slots", "0")
	r.until("SELECT count(DISTINCT source) FROM units", strconv.Itoa(workspaces))
	serve.end(t) // the worker does the planned work without serve
	r.until(ownSessions, "0")
	count := r.sessions(t)
	if pooled {
		clients := r.throughPooler(t, fmt.Sprint("default_pool_size = ", 2+slots/4)) // as many as the worker has for the destination
		count = func(ctx context.Context) (int, error) { ports, err := clients(ctx); return len(ports), err }
	}
	most := mostOf(t, 5*time.Millisecond, count)
	worker := r.start("worker", "--slots", strconv.Itoa(slots))
	r.until("SELECT count(*) FROM units WHERE state <> 'done'", "0")
	n := most()
	worker.end(t)
	t.Logf("%d connections at most; the run took %s s", n, r.text("SELECT round(extract(epoch FROM max(ended) - min(started)), 1) FROM units"))
	require.Positive(t, n)
	require.LessOrEqual(t, n, 4+(slots+1)/2)
	r.whole()
}

// ownSessions counts the sessions of penstock on the server.
const ownSessions = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'penstock'"

// sessions returns a function that counts the sessions of penstock on the server.
func (r *fleetRig) sessions(t *testing.T) (count func(context.Context) (int, error)) {
	c, err := pgx.Connect(t.Context(), r.server.URL())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return func(ctx context.Context) (n int, err error) {
		err = c.QueryRow(ctx, ownSessions).Scan(&n)
		return n, err
	}
}

// throughPooler starts a PgBouncer, and changes the configuration so that penstock connects to it. It returns a function
// that returns the connections to the PgBouncer: their ports on the side of the clients.
func (r *fleetRig) throughPooler(t *testing.T, settings ...string) (clients func(context.Context) (ports []string, err error)) {
	pooler := r.server.Pooler(t, settings...)
	from, err := url.Parse(r.server.URL())
	require.NoError(t, err)
	to, err := url.Parse(pooler)
	require.NoError(t, err)
	text, err := os.ReadFile(r.config())
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(r.config(), []byte(strings.ReplaceAll(string(text), from.Host, to.Host)), 0o600))
	admin := *to
	admin.Path = "/pgbouncer" // PgBouncer's own database
	c, err := pgx.Connect(t.Context(), admin.String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return func(ctx context.Context) (ports []string, err error) {
		if c.IsClosed() {
			again, err := pgx.Connect(ctx, admin.String())
			if err != nil {
				return nil, nil // the PgBouncer is being started again
			}
			c = again
		}
		results, err := c.PgConn().Exec(ctx, "SHOW CLIENTS").ReadAll()
		if c.IsClosed() {
			return nil, nil // the PgBouncer has exited
		}
		if err != nil {
			return nil, err
		}
		for _, row := range results[0].Rows {
			if database, state := string(row[2]), string(row[3]); database != "pgbouncer" && !strings.HasSuffix(state, "cancel_req") {
				ports = append(ports, string(row[5]))
			}
		}
		return ports, nil
	}
}

// mostOf calls the function count again and again. The returned function ends this, and returns the greatest result
// that count has reached several times in a row. After a worker has replaced a connection, the server may still show the
// session of the closed connection for some milliseconds.
func mostOf(t *testing.T, every time.Duration, count func(context.Context) (int, error)) (most func() int) {
	const inARow = 5
	ctx, stop := context.WithCancel(t.Context())
	var last [inARow]int
	greatest := 0
	var counting sync.WaitGroup
	counting.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for i := 0; ; i++ {
			n, err := count(context.WithoutCancel(ctx)) // if a context ends during a query, pgx closes the connection
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				t.Errorf("count connections: %v", err)
				return
			}
			last[i%inARow] = n
			greatest = max(greatest, slices.Min(last[:]))
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() int {
		stop()
		counting.Wait()
		return greatest
	}
}
