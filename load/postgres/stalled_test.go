//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/postgres/codec"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/state"
)

// TestZombie stalls a process at each step of a commit. Its connection stays open. Meanwhile another process loads the
// stream. When the first process continues, it must not commit.
func TestZombie(t *testing.T) {
	server := pgtest.Shared(t)
	var steps []string
	d := open(t, Options{URL: server.URL(), Schema: "steps", Step: func(name string) error {
		steps = append(steps, name)
		return nil
	}})
	loadRows(t, d, 1, faultParts(1, 10)...)
	steps = nil
	loadRows(t, d, 2, faultParts(2, 10)...)
	require.Contains(t, steps, "precommit")
	require.Equal(t, "committed", steps[len(steps)-1])
	for n, name := range steps[:len(steps)-1] {
		t.Run(fmt.Sprint(n, " ", name), func(t *testing.T) {
			t.Parallel()
			zombie(t, server, fmt.Sprint("s", n), n)
		})
	}
}

// zombie stalls a process at step n of a commit in a schema.
func zombie(t *testing.T, server *pgtest.Server, schema string, n int) {
	d := open(t, Options{URL: server.URL(), Schema: schema})
	loadRows(t, d, 1, faultParts(1, 10)...)
	asleep, awake := make(chan struct{}), make(chan struct{})
	wake := sync.OnceFunc(func() { close(awake) })
	defer wake()
	left := n
	frozen := open(t, Options{URL: server.URL(), Schema: schema, IdleTimeout: 300 * time.Millisecond, Step: func(string) error {
		if left--; left == -1 {
			close(asleep)
			<-awake
		}
		return nil
	}})
	done := make(chan error, 1)
	go func() {
		_, err := attemptLoad(t, frozen, 2, "frozen", faultParts(2, 10)...)
		done <- err
	}()
	<-asleep
	next := open(t, Options{URL: server.URL(), Schema: schema, LockTimeout: 100 * time.Millisecond})
	loadRows(t, next, 3, faultParts(3, 10)...)
	wake()
	require.ErrorIs(t, <-done, state.ErrMoved)
	faultCheck(t, server, schema, 3, 10)
}

// TestZombieInCopy is like TestZombie, but the process stalls while it sends rows for a COPY. For the server, such a
// session is not idle.
func TestZombieInCopy(t *testing.T) {
	server := pgtest.Shared(t)
	if server.Text("SELECT current_setting('server_version_num')::int >= 140000") != "t" {
		t.Skip("servers before Postgres 14 do not show the progress of a COPY")
	}
	o := Options{URL: server.URL(), Schema: "s", LockTimeout: 100 * time.Millisecond, IdleTimeout: 300 * time.Millisecond}
	d := open(t, o)
	loadRows(t, d, 1, faultParts(1, 10)...)
	s, err := d.b.pool.acquire(t.Context())
	require.NoError(t, err)
	defer s.drop()
	_, err = fence(t.Context(), s, d.b.dialect, leads, d.b.pool.beginSQL()+"; ")
	require.NoError(t, err)
	require.NoError(t, s.run(t.Context(), temporary(stagedIn, "(n bigint)")))
	rows, frozen := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := s.copyIn(t.Context(), "COPY "+stagedIn, rows)
		done <- err
	}()
	header := make([]byte, 19) // the header of COPY's binary format, without the trailer
	_, err = (&codec.Copier{Staged: &load.Staged{}}).Read(header)
	require.NoError(t, err)
	_, err = frozen.Write(header)
	require.NoError(t, err)
	loadRows(t, open(t, o), 2, faultParts(2, 10)...)
	require.NoError(t, frozen.CloseWithError(errors.New("never went on")))
	require.Error(t, <-done)
	faultCheck(t, server, "s", 2, 10)
}

// TestStalled distinguishes a COPY that makes progress from a COPY that does not.
func TestStalled(t *testing.T) {
	d := &pool{o: Options{IdleTimeout: 10 * time.Second}}
	at := func(seconds int) time.Time { return time.Unix(int64(seconds), 0) }
	require.Empty(t, d.stalled(map[string]string{"1": "q 5", "2": "q 5"}, at(0)))
	require.Empty(t, d.stalled(map[string]string{"1": "q 5", "2": "q 6"}, at(9)))
	require.Equal(t, []string{"1"}, d.stalled(map[string]string{"1": "q 5", "2": "q 6"}, at(10)))
	require.Empty(t, d.stalled(map[string]string{"1": "r 5"}, at(18)), "the COPY of session 2 has ended, and session 1 has begun another COPY")
	require.Empty(t, d.stalled(map[string]string{"2": "q 6"}, at(20)), "the COPY of session 2 was not seen before, so its time starts again")
}

// In TestKeepalive, a transaction waits a long time for its source, and keeps its session alive.
func TestKeepalive(t *testing.T) {
	server := pgtest.Shared(t)
	d := open(t, Options{URL: server.URL(), Schema: "s", IdleTimeout: 3 * time.Second})
	x, err := d.Begin(t.Context(), leads, "", load.Pass{Run: runID(1), Whole: true})
	require.NoError(t, err)
	defer x.Rollback()
	p := faultParts(1, 10)[0]
	b := loadtest.Batch(t, p.table, p.rows...)
	defer b.Release()
	require.NoError(t, x.Write(t.Context(), p.table, b))
	_, err = x.Apply(t.Context(), load.Sweep{})
	require.NoError(t, err)
	heard := ""
	for range 2 {
		before := heard
		require.Eventually(t, func() bool {
			heard = server.Text("SELECT state_change FROM pg_stat_activity WHERE state = 'idle in transaction' AND query = 'SELECT 1'")
			return heard > before
		}, time.Minute, 50*time.Millisecond)
	}
	require.NoError(t, x.Commit(t.Context(), "c1"))
	require.Equal(t, "9", server.Text("SELECT count(*) FROM s.crm_leads"))
}
