package schedule

import "time"

// Elided summarizes slots that are too many to list.
type Elided struct {
	First, Last time.Time
	Count       int
}

// mostCounted limits how many slots are counted. Beyond it, Between jumps to the last day, and the
// Count of Elided is a lower bound.
const mostCounted = 200_000

// Between returns the slots later than after, up to and including until. If there are more than most,
// it returns the last ones, and a summary of those before them.
func (s Schedule) Between(after, until time.Time, most int) (before Elided, slots []time.Time) {
	ring, n := make([]time.Time, 0, min(most, 64)), 0
	for at := s.Next(after); !at.IsZero() && !at.After(until); at = s.Next(at) {
		if n++; len(ring) < most {
			ring = append(ring, at)
			continue
		}
		out := ring[(n-1)%most]
		if before.Count == 0 {
			before.First = out
		}
		before.Last, before.Count = out, before.Count+1
		ring[(n-1)%most] = at
		if n == mostCounted {
			if day := until.AddDate(0, 0, -1); at.Before(day) {
				at = day
			}
		}
	}
	if n <= most {
		return before, ring
	}
	cut := n % most
	return before, append(append(slots, ring[cut:]...), ring[:cut]...)
}
