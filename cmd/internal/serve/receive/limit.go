package receive

import (
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

// defaultBudget is how much of bodies may be in memory at once.
const defaultBudget = 64 << 20

// address is who is asking, as far as limits tell one from another: of IPv6 the
// network, since everybody there has as many addresses as he likes.
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

// budget is the memory of all bodies that are in work. One address may have a
// quarter of it. // Invariant 6
type budget struct {
	mu    sync.Mutex
	left  int64
	share int64
	by    map[netip.Addr]int64
}

func newBudget(n int64) *budget {
	return &budget{left: n, share: n / 4, by: map[netip.Addr]int64{}}
}

// holding is what one delivery has of the budget.
type holding struct {
	of *budget
	by netip.Addr
	n  int64
}

func (b *budget) account(by netip.Addr) *holding { return &holding{of: b, by: by} }

// take reports whether there are n bytes more, and takes them.
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

// release gives back what was taken.
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

// Connections bound those that a listener accepts; more are closed as they come.
// Clients that send nothing, or a byte a second, would else take all descriptors
// that there are, and with many addresses they would do so below a bound of each.
type Connections struct {
	PerAddress, Total int
}

// Listener bounds the connections that come to a listener.
func Listener(l net.Listener, most Connections, log *slog.Logger) net.Listener {
	return &listener{Listener: l, most: most, by: map[netip.Addr]int{}, log: log}
}

type listener struct {
	net.Listener
	most Connections
	log  *slog.Logger

	mu    sync.Mutex
	by    map[netip.Addr]int
	total int
	told  time.Time // when the log said last that there are too many
}

// Accept waits for the next connection that may be had.
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
	if l.by[by] >= l.most.PerAddress || l.total >= l.most.Total {
		if now := time.Now(); now.Sub(l.told) >= time.Minute {
			l.told = now
			l.log.Warn("connection closed: too many are open", "from", by, "of_this_address", l.by[by], "of_all", l.total)
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

// conn tells when it is closed.
type conn struct {
	net.Conn
	leave func()
}

// Close tells that its place is free, and closes it.
func (c *conn) Close() error {
	c.leave()
	return c.Conn.Close()
}
