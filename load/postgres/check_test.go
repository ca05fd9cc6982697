package postgres

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

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
	var log bytes.Buffer
	_, err = Open(t.Context(), Options{URL: "postgres://anna:secret@" + l.Addr().String() + "/x", Wait: 5 * time.Second, Log: slog.New(slog.NewTextHandler(&log, nil))})
	require.ErrorContains(t, err, "connection refused")
	require.Equal(t, 1, strings.Count(log.String(), "the database does not answer; trying again"))
	require.NotContains(t, log.String(), "secret")
}
