package schedule

import "time"

// Elided summarizes slots that are not listed, because there are too many.
type Elided struct {
	First, Last time.Time
	Count       int
}

// mostCounted limits how many slots Between counts one by one. After that many it skips to the last day, and the
// Count of Elided is too low.
const mostCounted = 200_000

// Between returns the slots after after, up to and including until. If there are more than limit, it returns the
// last ones, and a summary of the earlier ones.
func (s Schedule) Between(after, until time.Time, limit int) (before Elided, slots []time.Time) {
	ring, n := make([]time.Time, 0, min(limit, 64)), 0
	for at := s.Next(after); !at.IsZero() && !at.After(until); at = s.Next(at) {
		if n++; len(ring) < limit {
			ring = append(ring, at)
			continue
		}
		out := ring[(n-1)%limit]
		if before.Count == 0 {
			before.First = out
		}
		before.Last, before.Count = out, before.Count+1
		ring[(n-1)%limit] = at
		if n == mostCounted {
			if day := until.AddDate(0, 0, -1); at.Before(day) {
				at = day
			}
		}
	}
	if n <= limit {
		return before, ring
	}
	cut := n % limit
	return before, append(append(slots, ring[cut:]...), ring[:cut]...)
}
