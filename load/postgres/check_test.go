package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// The error of a failed connection has one line, which ends with the cause.
func TestDialErrorIsOneLine(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, err = Open(context.Background(), Options{URL: "postgres://anna:secret@" + l.Addr().String() + "/x?sslmode=prefer", Wait: time.Millisecond})
	require.ErrorContains(t, err, "connection refused")
	require.NotContains(t, err.Error(), "\n")
	require.NotContains(t, err.Error(), "secret")
}

func TestLackingFitsAScreen(t *testing.T) {
	var l Problems
	for i := range 200 {
		l = append(l, fmt.Sprintf("table t%d belongs to another role", i))
	}
	require.Less(t, len(l.Error()), 500)
	require.ErrorContains(t, l, "; and 192 more")
}

// A server that does not answer is waited for. After about two seconds, a warning says so.
func TestWaitIsAnnounced(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	ctx, cancel := context.WithCancel(t.Context())
	log := &warnings{then: cancel}
	begun := time.Now()
	_, err = Open(ctx, Options{URL: "postgres://anna:secret@" + l.Addr().String() + "/x", Wait: time.Minute, Log: log.logger()})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, log.count())
	require.GreaterOrEqual(t, time.Since(begun), silentFor)
	require.NotContains(t, log.text.String(), "secret")
}

// A warning means that the server does not answer. It comes once for all sessions, until the server answers again.
func TestWaitIsAnnouncedOnce(t *testing.T) {
	_, refused := pgconn.Connect(t.Context(), "postgres://anna@127.0.0.1:1/x")
	require.Error(t, refused)
	synctest.Test(t, func(t *testing.T) {
		log := &warnings{}
		p := &pool{o: Options{Wait: 10 * time.Second, Log: log.logger()}}
		conflict := retryable{errors.New("expected to change 2 rows, changed 1")}
		require.ErrorIs(t, p.retry(t.Context(), func() error { return conflict }), conflict)
		require.Zero(t, log.count())

		for want := 1; want <= 2; want++ {
			var sessions sync.WaitGroup
			for range 3 {
				sessions.Go(func() { _ = p.retry(t.Context(), func() error { return refused }) })
			}
			sessions.Wait()
			require.Equal(t, want, log.count())
			require.NoError(t, p.retry(t.Context(), func() error { return nil }))
		}

		attempts := 0 // a host that drops packets: the warning comes after the first attempt
		require.NoError(t, p.retry(t.Context(), func() error {
			if attempts++; attempts > 1 {
				return nil
			}
			time.Sleep(dialTimeout)
			return refused
		}))
		require.Equal(t, 3, log.count())

		lost := 0 // a connection that is lost after a long statement, and replaced at once
		require.NoError(t, p.retry(t.Context(), func() error {
			if lost++; lost > 1 {
				return nil
			}
			time.Sleep(8 * time.Second)
			return io.ErrUnexpectedEOF
		}))
		require.Equal(t, 3, log.count())
	})
}

// warnings is a log that counts the warnings about a server that does not answer. It calls then() for each line.
type warnings struct {
	mu   sync.Mutex
	text bytes.Buffer
	then func()
}

func (w *warnings) logger() *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// Write adds to the log.
func (w *warnings) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.then != nil {
		w.then()
	}
	return w.text.Write(line)
}

func (w *warnings) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Count(w.text.String(), "the database does not answer; trying again")
}
