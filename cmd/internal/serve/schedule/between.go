package schedule

import "time"

// Elided summarizes slots that are not listed, because there are too many.
type Elided struct {
	First, Last time.Time
	Count       int
}

// mostCounted limits how many slots Between counts one by one. After that number, Between skips to the last day, and
// Elided.Count is too low.
const mostCounted = 200_000

// Between returns the slots after start, up to and including end. If there are more slots than limit, Between returns
// only the last of them, and a summary of the earlier ones.
func (s Schedule) Between(start, end time.Time, limit int) (earlier Elided, slots []time.Time) {
	ring, n := make([]time.Time, 0, min(limit, 64)), 0
	for at := s.Next(start); !at.IsZero() && !at.After(end); at = s.Next(at) {
		if n++; len(ring) < limit {
			ring = append(ring, at)
			continue
		}
		out := ring[(n-1)%limit]
		if earlier.Count == 0 {
			earlier.First = out
		}
		earlier.Last, earlier.Count = out, earlier.Count+1
		ring[(n-1)%limit] = at
		if n == mostCounted {
			if day := end.AddDate(0, 0, -1); at.Before(day) {
				at = day
			}
		}
	}
	if n <= limit {
		return earlier, ring
	}
	cut := n % limit
	return earlier, append(append(slots, ring[cut:]...), ring[:cut]...)
}
