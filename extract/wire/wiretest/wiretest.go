// Package wiretest serves HTTP without a network, so that tests of clients can run in virtual time.
package wiretest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// URL is the base URL of a server of this package.
const URL = "http://127.0.0.1:80"

// Dial opens a connection to the server, whatever the address. It is a value for wire.Options.Dial.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Serve starts a server whose connections are pipes in memory. In a synctest bubble, time passes while the server and
// its clients wait for each other. The caller must call stop at the end. It closes the server and lets five seconds
// pass, because a handler may still sleep.
func Serve(h http.Handler) (dial Dial, stop func() error) {
	l := &listener{conns: make(chan net.Conn), done: make(chan struct{})}
	srv := &http.Server{Handler: h}
	go func() { _ = srv.Serve(l) }()
	return l.dial, func() error {
		err := srv.Close()
		time.Sleep(5 * time.Second)
		return err
	}
}

type listener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

// Accept implements [net.Listener].
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements [net.Listener].
func (l *listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements [net.Listener].
func (l *listener) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }

func (l *listener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case l.conns <- there:
		return here, nil
	case <-l.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
