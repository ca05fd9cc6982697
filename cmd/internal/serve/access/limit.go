package access

import (
	"sync"
	"time"
)

// Allowances of wrong tokens: some at once, then one every few seconds. Each client has
// one. Clients that have shown no right token share another: together they get fewer than a
// hundred evaluations in any minute.
const (
	clientBurst = 10
	clientEvery = 6 * time.Second
	allBurst    = 30
	allEvery    = 2 * time.Second

	maxClients = 4096
	maxKnown   = 64             // clients that have shown a right token
	knownFor   = 24 * time.Hour // since they last did
)

// limiter counts wrong tokens. This machine itself, and clients that have shown a
// right token, are bound by their own allowance only: strangers who guess do not
// keep them out. The zero value is ready.
type limiter struct {
	mu      sync.Mutex
	clients map[client]bucket
	known   map[client]time.Time
	all     bucket
}

// bucket is how many wrong tokens were counted at a moment; one is forgotten every
// so often.
type bucket struct {
	count float64
	at    time.Time
}

func (b bucket) now(now time.Time, every time.Duration) float64 {
	return max(0, b.count-max(0, now.Sub(b.at)).Seconds()/every.Seconds())
}

// try evaluates a token unless too many wrong ones came. Only wrong ones count; a
// client whose token was right has its own allowance from then on.
func (l *limiter) try(from client, now time.Time, evaluate func() bool) (right, limited bool) {
	l.mu.Lock() // two requests at once do not pass the limit together
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

// remember notes that a client has shown a right token.
func (l *limiter) remember(from client, now time.Time) {
	if from == local || from == strangers {
		return
	}
	if _, ok := l.known[from]; !ok && len(l.known) >= maxKnown {
		l.dropOldest()
	}
	l.known[from] = now
}

// shares reports whether a client is bound by the allowance of all.
func (l *limiter) shares(from client, now time.Time) bool {
	at, known := l.known[from]
	return from != local && (!known || now.Sub(at) > knownFor)
}

// strangers counts the clients that there is no room to count one by one.
var strangers = client{forwarded: true}

// room is the client that from counts as. // Invariant 6
func (l *limiter) room(from client, now time.Time) client {
	if _, ok := l.clients[from]; ok || len(l.clients) < maxClients {
		return from
	}
	for c, b := range l.clients {
		if b.now(now, clientEvery) == 0 {
			delete(l.clients, c)
		}
	}
	if _, known := l.known[from]; known || from == local || len(l.clients) < maxClients {
		return from
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
