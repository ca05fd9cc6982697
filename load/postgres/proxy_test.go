//go:build unix

package postgres

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// proxy passes messages between a destination and its server. It can cut the connection at a COMMIT: before the server
// gets the COMMIT, or before the client gets the answer.
type proxy struct {
	listener net.Listener
	to       string

	mu       sync.Mutex
	question int // how many more requests to lose
	answer   int // how many more answers to lose
	cuts     int
}

func newProxy(t testing.TB, to string) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: l, to: to}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

func (p *proxy) lose(question, answer int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.question, p.answer, p.cuts = question, answer, 0
}

func (p *proxy) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cuts
}

var commitQuery = append([]byte{'Q', 0, 0, 0, 11}, "COMMIT\x00"...)

// take decides what happens to the next COMMIT.
func (p *proxy) take() (question, answer bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.question > 0:
		p.question--
		p.cuts++
		return true, false
	case p.answer > 0:
		p.answer--
		p.cuts++
		return false, true
	}
	return false, false
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	var silent sync.Mutex // locked while answers are suppressed
	mute := false
	go func() {
		defer client.Close()
		buf := make([]byte, 1<<16)
		for {
			n, err := server.Read(buf)
			silent.Lock()
			quiet := mute
			silent.Unlock()
			if quiet {
				return
			}
			if n > 0 {
				if _, err := client.Write(buf[:n]); err != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	defer server.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := client.Read(buf)
		if n > 0 && bytes.HasSuffix(buf[:n], commitQuery) {
			question, answer := p.take()
			if question {
				return
			}
			if answer {
				silent.Lock()
				mute = true
				silent.Unlock()
				_, _ = server.Write(buf[:n])
				client.Close()
				// Let the server finish before it notices that the connection is lost.
				_, _ = io.Copy(io.Discard, io.LimitReader(server, 1))
				return
			}
		}
		if n > 0 {
			if _, err := server.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// message reads one message. It returns the message's kind and all of its bytes.
func message(r io.Reader) (byte, []byte, error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, nil, err
	}
	rest := make([]byte, binary.BigEndian.Uint32(head[1:])-4)
	_, err := io.ReadFull(r, rest)
	return head[0], append(head, rest...), err
}
