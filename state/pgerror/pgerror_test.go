package pgerror

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

func TestTransient(t *testing.T) {
	for _, c := range []struct {
		err                     error
		transient, disconnected bool
	}{
		{nil, false, false},
		{errors.New("no answer"), false, false},
		{context.DeadlineExceeded, false, false},
		{fmt.Errorf("%w: %w", context.Canceled, io.ErrUnexpectedEOF), false, false},
		{fmt.Errorf("read: %w", io.ErrUnexpectedEOF), true, true},
		{pgconn.ErrConnClosed, true, true},
		{fmt.Errorf("%w: %w", &pgconn.ConnectError{}, context.Canceled), false, false},
		{&pgconn.PgError{Code: Shutdown}, true, true},
		{&pgconn.PgError{Code: "08006"}, true, true},
		{&pgconn.PgError{Code: LockTimeout}, true, false},
		{&pgconn.PgError{Code: "40001"}, true, false},
		{&pgconn.PgError{Code: "23505"}, false, false},
		{&pgconn.PgError{Code: Internal, Message: "cache lookup failed"}, false, false},
		{&pgconn.PgError{Code: Internal, Message: "tuple concurrently updated"}, true, false},
	} {
		require.Equal(t, c.transient, Transient(c.err), "%v", c.err)
		require.Equal(t, c.disconnected, Disconnected(c.err), "%v", c.err)
	}
}

// TestUntrusted: one server has no TLS, and another has an unknown certificate. Both answer, so a retry would fail
// again.
func TestUntrusted(t *testing.T) {
	for name, serve := range map[string]func(net.Conn){
		"no TLS": func(c net.Conn) { _, _ = c.Write([]byte("N")) },
		"unknown authority": func(c net.Conn) {
			_, _ = c.Write([]byte("S"))
			own := httptest.NewUnstartedServer(nil)
			own.StartTLS()
			defer own.Close()
			_ = tls.Server(c, own.TLS).Handshake()
		},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer l.Close()
			go func() {
				c, err := l.Accept()
				if err != nil {
					return
				}
				defer c.Close()
				_, _ = io.ReadFull(c, make([]byte, 8)) // the request for TLS
				serve(c)
			}()
			_, err = pgconn.Connect(t.Context(), "postgres://penny@"+l.Addr().String()+"/books?sslmode=verify-full")
			require.Error(t, err)
			require.False(t, Transient(err), "%v", err)
		})
	}
}

// TestShorten checks that the error of a failed connection has one line, and contains neither the user nor the
// password.
func TestShorten(t *testing.T) {
	for _, hosts := range []string{"127.0.0.1:1", "127.0.0.1:1,127.0.0.1:2"} {
		_, err := pgconn.Connect(t.Context(), "postgres://penny:127.0.0.1@"+hosts+"/books?sslmode=disable")
		short := Shorten(err, "the state database: ")
		require.ErrorIs(t, short, err)
		require.Regexp(t, `^connect to the state database: \[redacted\].*connection refused$`, short.Error())
		require.NotContains(t, short.Error(), "penny")
	}
	require.Equal(t, io.EOF, Shorten(io.EOF, ""))
}
