package schedule

import "time"

// Elided are slots that are too many to be told one by one.
type Elided struct {
	First, Last time.Time
	Count       int
}

// Counted slots are at most so many. Beyond, an Elided leaps to the last day and
// its Count says at least how many there were.
const mostCounted = 200_000

// Between are the slots after one time up to another: the last ones, most at
// most, in their order, and how many there were before these.
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
