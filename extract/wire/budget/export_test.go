package budget

import "time"

// Exports for tests that need a client. These tests are in another package, because the client's package imports this
// package.

type Link = link

// NewLink returns a server that counts requests in the given way, and states its limit.
func NewLink(kind string, limit Rate) *Link {
	return &link{counter: modelsOf(limit)[kind], headers: true, retry: "reset"}
}

func Between(arrivals []time.Time, from, to time.Time) int { return between(arrivals, from, to) }

func MaxInWindow(arrivals []time.Time, window time.Duration) int {
	return maxInWindow(arrivals, window)
}
