package receive

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/state"
)

func exchange(t *testing.T, r *rig, send func(c net.Conn)) string {
	t.Helper()
	c, err := net.Dial("tcp", r.Listener.Addr().String())
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	send(c)
	back, err := io.ReadAll(c)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "the server closes the connection, or resets it if it has not read the whole request")
	return string(back)
}

const head = "POST /webhooks/main HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"

func TestTooLarge(t *testing.T) {
	r := newRig(t)
	for name, send := range map[string]func(net.Conn){
		"announced": func(c net.Conn) { // Content-Length is too large, so the server reads no byte of the body
			fmt.Fprintf(c, head+"Content-Length: %d\r\n\r\n", MaxBody+1)
		},
		"announced, with Expect: 100-continue": func(c net.Conn) {
			fmt.Fprintf(c, head+"Content-Length: %d\r\nExpect: 100-continue\r\n\r\n", MaxBody+1)
		},
		"without end": func(c net.Conn) {
			fmt.Fprint(c, head+"Transfer-Encoding: chunked\r\n\r\n")
			chunk := fmt.Sprintf("10000\r\n%s\r\n", strings.Repeat("x", 0x10000))
			for range 1024 { // 64 MiB in total; the server closes the connection earlier
				if _, err := io.WriteString(c, chunk); err != nil {
					return
				}
			}
			t.Error("the server read all 64 MiB")
		},
	} {
		t.Run(name, func(t *testing.T) {
			back := exchange(t, r, send)
			if back != "" || name != "without end" { // a reset may discard the response
				require.True(t, strings.HasPrefix(back, "HTTP/1.1 413 "), back)
				require.Contains(t, back, "Connection: close")
			}
		})
	}
	require.Equal(t, 3, r.verdicts()["main too large"])
	body := fmt.Sprintf(`{"id":"evt_1","x":%q}`, strings.Repeat("x", MaxBody-21))
	require.Equal(t, MaxBody, len(body))
	require.Equal(t, 200, r.deliver(t, body).status, "a body of the maximum size is accepted")
	require.Equal(t, 413, r.deliver(t, body+" ").status)
	require.EqualValues(t, defaultBudget, r.budget.left, "all memory was given back")
}

func TestAmbiguous(t *testing.T) {
	r := newRig(t)
	signed := "Service-Signature: " + sign([]byte("hello")) + "\r\n"
	for name, tt := range map[string]struct{ text, want string }{
		"two lengths":          {head + signed + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "400"},
		"length and chunks":    {head + signed + "Connection: close\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "200"},
		"unknown transfer":     {head + signed + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", "501"},
		"bad chunk":            {head + signed + "Transfer-Encoding: chunked\r\n\r\nzz\r\nhello", "503"},
		"absolute form":        {strings.Replace(head, "/webhooks", "http://x/webhooks", 1) + signed + "Connection: close\r\nContent-Length: 5\r\n\r\nhello", "200"},
		"two signatures":       {head + signed + signed + "Connection: close\r\nContent-Length: 5\r\n\r\nhello", "401"},
		"expects 100-continue": {head + signed + "Connection: close\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello", "100"},
		"no length":            {head + signed + "Connection: close\r\n\r\nhello", "401"},
	} {
		t.Run(name, func(t *testing.T) {
			back := exchange(t, r, func(c net.Conn) { fmt.Fprint(c, tt.text) })
			require.True(t, strings.HasPrefix(back, "HTTP/1.1 "+tt.want+" "), back)
		})
	}
	back := exchange(t, r, func(c net.Conn) {
		fmt.Fprint(c, head+signed+"Content-Length: 50\r\n\r\nhello")
		require.NoError(t, c.(*net.TCPConn).CloseWrite())
	})
	require.True(t, strings.HasPrefix(back, "HTTP/1.1 503 ") || back == "", "cut: %s", back)
	for _, e := range r.events(t) {
		require.Equal(t, "hello", string(e.Body))
	}
}

type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

// A body that takes longer than ten seconds is cut off, even if bytes still arrive.
func TestSlowBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inbox, err := state.OpenInbox(t.Context(), t.TempDir(), state.InboxOptions{})
		require.NoError(t, err)
		defer inbox.Close()
		h := New(Options{Inbox: inbox})
		h.Define(Sources{"main": verifier(t)})
		l := make(pipes)
		s := &http.Server{Handler: h, ReadHeaderTimeout: 5 * time.Second}
		done := make(chan error)
		go func() { done <- s.Serve(l) }()

		client, server := net.Pipe()
		l <- server
		start := time.Now()
		var sender sync.WaitGroup
		defer sender.Wait()
		sender.Go(func() {
			fmt.Fprint(client, head+"Content-Length: 1000\r\n\r\n")
			for {
				if _, err := client.Write([]byte("x")); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		})
		a, err := http.ReadResponse(bufio.NewReader(client), nil)
		require.NoError(t, err)
		require.Equal(t, 503, a.StatusCode)
		require.Equal(t, bodyTime, time.Since(start))
		require.True(t, a.Close)
		require.NoError(t, client.Close())
		require.NoError(t, s.Shutdown(t.Context()))
		require.ErrorIs(t, <-done, http.ErrServerClosed)
		require.EqualValues(t, defaultBudget, h.budget.left)
	})
}

// A client that announces a large body and sends little uses little memory. A client that sends much uses up its
// share, and other clients are still served.
func TestBudget(t *testing.T) {
	b := newBudget(1000)
	greedy, other := b.account(address("10.0.0.1:1")), b.account(address("10.0.0.2:1"))
	second := b.account(address("10.0.0.1:2"))
	require.True(t, greedy.take(200))
	require.False(t, greedy.take(100), "beyond a quarter")
	require.False(t, second.take(100), "on another connection, too")
	require.True(t, second.take(50))
	require.True(t, other.take(250))
	greedy.release()
	greedy.release()
	require.True(t, second.take(200))
	second.release()
	other.release()
	require.EqualValues(t, 1000, b.left)
	require.Empty(t, b.by)
}

func TestBusy(t *testing.T) {
	r := newRig(t)
	r.budget = newBudget(4 * 8 << 10)
	large := fmt.Sprintf(`{"id":"evt_1","x":%q}`, strings.Repeat("x", 10<<10))
	a := r.deliver(t, large)
	require.Equal(t, 503, a.status)
	require.Equal(t, 200, r.deliver(t, `{"id":"evt_2"}`).status)
	require.Equal(t, 1, r.verdicts()["main too many at once"])
}

func TestAddress(t *testing.T) {
	for remote, want := range map[string]string{
		"10.1.2.3:99": "10.1.2.3", "[::ffff:10.1.2.3]:99": "10.1.2.3", "[2001:db8:1:2:3:4:5:6]:99": "2001:db8:1:2::",
		"[fe80::1%eth0]:99": "fe80::",
	} {
		require.Equal(t, netip.MustParseAddr(want), address(remote), remote)
	}
	require.Equal(t, netip.Addr{}, address("@"))
}

func TestListener(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	l := Listener(inner, Connections{PerAddress: 3, Total: 100}, slog.New(slog.DiscardHandler))
	s := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	done := make(chan error)
	go func() { done <- s.Serve(l) }()
	alive := func(c net.Conn) bool {
		fmt.Fprint(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		_, err := http.ReadResponse(bufio.NewReader(c), nil)
		return err == nil
	}
	for range 3 {
		var all []net.Conn
		for range 3 {
			c, err := net.Dial("tcp", inner.Addr().String())
			require.NoError(t, err)
			require.True(t, alive(c))
			all = append(all, c)
		}
		surplus, err := net.Dial("tcp", inner.Addr().String())
		require.NoError(t, err)
		require.False(t, alive(surplus))
		require.NoError(t, surplus.Close())
		for _, c := range all {
			require.NoError(t, c.Close())
		}
		require.Eventually(t, func() bool {
			l := l.(*listener)
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.by) == 0
		}, time.Minute, time.Millisecond)
	}
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-done, http.ErrServerClosed)
}

// The total limit also applies if each of many addresses is below its own limit.
func TestListenerTotal(t *testing.T) {
	var log strings.Builder
	in := make(pipes, 30)
	l := Listener(in, Connections{PerAddress: 3, Total: 20}, slog.New(slog.NewTextHandler(&log, nil)))
	for i := range 30 {
		in <- &addressed{at: fmt.Sprintf("203.0.113.%d:1", i)}
	}
	close(in)
	var open []net.Conn
	for c, err := l.Accept(); err == nil; c, err = l.Accept() {
		open = append(open, c)
	}
	require.Len(t, open, 20)
	require.Equal(t, 1, strings.Count(log.String(), "too many are open"), log.String())
	require.NoError(t, open[7].Close())
	require.True(t, l.(*listener).enter(netip.MustParseAddr("192.0.2.1")), "a connection was closed, so another one is accepted")
	require.False(t, l.(*listener).enter(netip.MustParseAddr("192.0.2.2")))
}

type addressed struct {
	net.Conn
	at string
}

func (a *addressed) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(a.at))
}
func (a *addressed) Close() error { return nil }

func FuzzDelivery(f *testing.F) {
	f.Add("application/json", "identity", "t=1,v1=00", []byte(`{"type":"x"}`))
	f.Add("text/plain; charset", "gzip", "", []byte("\xff"))
	f.Fuzz(func(t *testing.T, kind, encoding, signature string, body []byte) {
		_ = typeOf(body)
		_ = readable([]string{kind})
		_ = identity([]string{encoding})
		r, err := http.NewRequest(http.MethodPost, "/webhooks/main", strings.NewReader(string(body)))
		require.NoError(t, err)
		r.Header.Set("Service-Signature", signature)
		h := New(Options{Inbox: failing{err: state.ErrInboxClosed}})
		h.Define(Sources{"main": verifier(t)})
		w := &recorder{header: http.Header{}}
		h.ServeHTTP(w, r)
		require.Contains(t, []int{401, 413}, w.status, "no client can sign by chance")
	})
}

type recorder struct {
	header http.Header
	status int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) Write(p []byte) (int, error) { return len(p), nil }
func (r *recorder) WriteHeader(status int)      { r.status = status }
