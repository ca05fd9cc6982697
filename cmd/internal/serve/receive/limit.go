package receive

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

const defaultBudget = 64 << 20

// address returns the IP address of a client. For IPv6 it returns the /64 network, because one client may use
// many addresses of it.
func address(remote string) netip.Addr {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	a := at.Addr().Unmap().WithZone("")
	if a.Is6() {
		if p, err := a.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return a
}

// budget limits the memory for bodies. One address gets at most a quarter of it. // Invariant 6
type budget struct {
	mu    sync.Mutex
	left  int64
	share int64
	by    map[netip.Addr]int64
}

func newBudget(n int64) *budget {
	return &budget{left: n, share: n / 4, by: map[netip.Addr]int64{}}
}

type holding struct {
	of *budget
	by netip.Addr
	n  int64
}

func (b *budget) account(by netip.Addr) *holding { return &holding{of: b, by: by} }

func (h *holding) take(n int) bool {
	b := h.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if int64(n) > b.left || b.by[h.by]+int64(n) > b.share {
		return false
	}
	b.left -= int64(n)
	b.by[h.by] += int64(n)
	h.n += int64(n)
	return true
}

func (h *holding) release() {
	if h.n == 0 {
		return
	}
	b := h.of
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left += h.n
	if b.by[h.by] -= h.n; b.by[h.by] == 0 {
		delete(b.by, h.by)
	}
	h.n = 0
}

// Connections limits the open connections of a listener. A connection that exceeds a limit is closed at once.
// Without limits, clients that send nothing, or one byte per second, could use up all file descriptors. The limit Total
// is needed because a client may have many addresses.
type Connections struct {
	PerAddress, Total int
}

// Listener returns a listener that enforces the limits.
func Listener(l net.Listener, limits Connections, log *slog.Logger) net.Listener {
	return &listener{Listener: l, limits: limits, by: map[netip.Addr]int{}, log: log}
}

type listener struct {
	net.Listener
	limits Connections
	log    *slog.Logger

	mu    sync.Mutex
	by    map[netip.Addr]int
	total int
	told  time.Time // time of the last log line about too many connections
}

// Accept returns the next connection within the limits. It closes connections that exceed them.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		by := address(c.RemoteAddr().String())
		if l.enter(by) {
			return &conn{Conn: c, leave: sync.OnceFunc(func() { l.leave(by) })}, nil
		}
		_ = c.Close()
	}
}

func (l *listener) enter(by netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.by[by] >= l.limits.PerAddress || l.total >= l.limits.Total {
		if now := time.Now(); now.Sub(l.told) >= time.Minute {
			l.told = now
			l.log.Warn("close connection: too many are open", "from", by, "of_this_address", l.by[by], "of_all", l.total)
		}
		return false
	}
	l.by[by]++
	l.total++
	return true
}

func (l *listener) leave(by netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total--
	if l.by[by]--; l.by[by] == 0 {
		delete(l.by, by)
	}
}

type conn struct {
	net.Conn
	leave func()
}

// Close closes the connection. It no longer counts for the limits.
func (c *conn) Close() error {
	c.leave()
	return c.Conn.Close()
}
