package access

import (
	"sync"
	"time"
)

// Limits of wrong tokens. Each client has a limit of its own. A client is unknown if it has not sent a correct
// token within knownFor. Unknown clients also share a limit: together they can try fewer than a hundred wrong
// tokens per minute.
const (
	clientBurst = 10
	clientEvery = 6 * time.Second
	allBurst    = 30
	allEvery    = 2 * time.Second

	maxClients = 4096
	maxKnown   = 64
	knownFor   = 24 * time.Hour // how long a client counts as known after a correct token
)

// limiter limits wrong tokens. The shared limit does not apply to this machine and to known clients, so that
// attackers cannot lock them out.
type limiter struct {
	mu      sync.Mutex
	clients map[client]bucket
	known   map[client]time.Time
	all     bucket
}

// bucket is a leaky bucket. The field time is a moment, and the field count is the content of the bucket at this
// moment. After it, the content decreases by one per interval.
type bucket struct {
	count float64
	time  time.Time
}

func (b bucket) now(now time.Time, every time.Duration) float64 {
	return max(0, b.count-max(0, now.Sub(b.time)).Seconds()/every.Seconds())
}

func (l *limiter) try(from client, now time.Time, evaluate func() bool) (right, limited bool) {
	l.mu.Lock() // locked during the comparison, so that concurrent requests do not exceed the limit
	defer l.mu.Unlock()
	if l.clients == nil {
		l.clients, l.known = map[client]bucket{}, map[client]time.Time{}
	}
	from = l.room(from, now)
	own, all, shares := l.clients[from].now(now, clientEvery), l.all.now(now, allEvery), l.shares(from, now)
	if own > clientBurst-1 || shares && all > allBurst-1 {
		return false, true
	}
	if evaluate() {
		l.remember(from, now)
		return true, false
	}
	l.clients[from] = bucket{own + 1, now}
	if shares {
		l.all = bucket{all + 1, now}
	}
	return false, false
}

func (l *limiter) remember(from client, now time.Time) {
	if from == local || from == strangers {
		return
	}
	if _, ok := l.known[from]; !ok && len(l.known) >= maxKnown {
		l.dropOldest()
	}
	l.known[from] = now
}

func (l *limiter) shares(from client, now time.Time) bool {
	at, known := l.known[from]
	return from != local && (!known || now.Sub(at) > knownFor)
}

// strangers is the entry for all clients for which the map clients has no space.
var strangers = client{forwarded: true}

// room returns the client under which the sender is counted: the sender itself, or strangers if the map clients is
// full. // Invariant 6
func (l *limiter) room(sender client, now time.Time) client {
	if _, ok := l.clients[sender]; ok || len(l.clients) < maxClients {
		return sender
	}
	for c, b := range l.clients {
		if b.now(now, clientEvery) == 0 {
			delete(l.clients, c)
		}
	}
	if _, known := l.known[sender]; known || sender == local || len(l.clients) < maxClients {
		return sender
	}
	return strangers
}

func (l *limiter) dropOldest() {
	var oldest client
	first := true
	for c, at := range l.known {
		if first || at.Before(l.known[oldest]) {
			oldest, first = c, false
		}
	}
	delete(l.known, oldest)
}
