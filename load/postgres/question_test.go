//go:build unix

package postgres

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/load"
	"github.com/penstock-data/penstock/load/loadtest"
	"github.com/penstock-data/penstock/load/postgres/pgtest"
	"github.com/penstock-data/penstock/state"
)

// counted returns the address of a proxy in front of the server, and a counter of the requests.
func counted(t testing.TB, to string) (address string, asked *atomic.Int64) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	asked = &atomic.Int64{}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go count(c, to, asked)
		}
	}()
	return l.Addr().String(), asked
}

func count(client net.Conn, to string, asked *atomic.Int64) {
	defer client.Close()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		defer client.Close()
		_, _ = io.Copy(client, server)
	}()
	size := make([]byte, 4) // the first message has no type byte
	if _, err := io.ReadFull(client, size); err != nil {
		return
	}
	if _, err := io.CopyN(server, io.MultiReader(bytes.NewReader(size), client), int64(binary.BigEndian.Uint32(size))); err != nil {
		return
	}
	for {
		kind, text, err := message(client)
		if err != nil {
			return
		}
		// A ping of a connection that was idle for long does not count.
		if kind == 'Q' && !bytes.Contains(text, []byte("-- ping")) {
			asked.Add(1)
		}
		if _, err := server.Write(text); err != nil {
			return
		}
	}
}

// commit writes rows in the order of their ids, and changes the cursor. The parameters `from` and `next` are the
// cursors before and after the commit.
func commit(t testing.TB, d *DB, run int, from, next state.Cursor) error {
	x, err := d.Begin(t.Context(), leads, from, load.Pass{Run: runID(run), Whole: true})
	if err != nil {
		return err
	}
	defer x.Rollback()
	for _, p := range faultParts(run, 10) {
		b := loadtest.Batch(t, p.table, p.rows...)
		err := x.Write(t.Context(), p.table, b)
		b.Release()
		if err != nil {
			return err
		}
	}
	return x.Commit(t.Context(), next)
}

// TestRoundTrips checks the number of requests per commit. A process that has made a commit knows the new values of the
// stream's row in _penstock_state, so it does not read them again.
func TestRoundTrips(t *testing.T) {
	server := pgtest.Shared(t)
	address, asked := counted(t, server.Address())
	d := open(t, Options{URL: server.Via(address), Schema: "s"})
	loadRows(t, d, 1, faultParts(1, 10)...)
	require.NoError(t, commit(t, d, 1, "c1", "c2"))

	before := asked.Load()
	x, err := d.Begin(t.Context(), leads, "c2", load.Pass{Run: runID(1), Whole: true})
	require.NoError(t, err)
	require.Equal(t, before, asked.Load(), "Begin sends no request")
	require.NoError(t, x.Commit(t.Context(), "c3"))
	require.EqualValues(t, 3, asked.Load()-before, "an empty commit needs three requests: lock the row, update the cursor, COMMIT")

	before = asked.Load()
	require.NoError(t, commit(t, d, 1, "c3", "c4"))
	require.LessOrEqual(t, asked.Load()-before, int64(12), "a commit of rows needs at most 12 requests")
}

// In TestCursorMovedByOther, another process changes the cursor that a destination has cached. // Invariant 13
func TestCursorMovedByOther(t *testing.T) {
	server := pgtest.Shared(t)
	mine, other := open(t, Options{URL: server.URL(), Schema: "s"}), open(t, Options{URL: server.URL(), Schema: "s"})
	loadRows(t, mine, 1, faultParts(1, 10)...)
	require.NoError(t, commit(t, other, 2, "c1", "c2"))
	require.ErrorIs(t, commit(t, mine, 2, "c1", "lost"), state.ErrMoved)
	require.ErrorIs(t, commit(t, mine, 2, "c1", "lost"), state.ErrMoved, "the second attempt fails too")
	require.NoError(t, commit(t, other, 2, "c2", "c1"), "the cursor gets an old value again, with a new sequence number")
	require.ErrorIs(t, commit(t, other, 2, "c2", "lost"), state.ErrMoved)
	require.NoError(t, commit(t, mine, 2, "c1", "c3"), "after the failed commits, the destination has read the position again")
	require.Equal(t, "c3 4", server.Text("SELECT cursor || ' ' || sequence FROM s._penstock_state"))
	server.Exec("DROP SCHEMA s CASCADE")
	require.ErrorIs(t, commit(t, mine, 3, "c3", "lost"), state.ErrMoved)
	require.NoError(t, commit(t, mine, 3, "", "c1"), "if the tables are gone, the next commit must begin with an empty cursor")
}
