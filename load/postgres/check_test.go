package postgres

import (
	"context"
	"fmt"
	"net"
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
