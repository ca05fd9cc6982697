package sandbox

import (
	"container/heap"
	"time"
)

// schedule holds parcels by the time at which they are due. The zero value is
// empty.
type schedule struct{ queue dueQueue }

func (s *schedule) add(p *plannedDelivery) { heap.Push(&s.queue, p) }

// first is the parcel that is due next, nil for none.
func (s *schedule) first() *plannedDelivery {
	if len(s.queue) == 0 {
		return nil
	}
	return s.queue[0]
}

// take removes the first and returns it.
func (s *schedule) take() *plannedDelivery { return heap.Pop(&s.queue).(*plannedDelivery) }

// hasten makes those that may be due by now.
func (s *schedule) hasten(now time.Time, may func(*plannedDelivery) bool) {
	for _, p := range s.queue {
		if may(p) && p.due.After(now) {
			p.due = now
		}
	}
	heap.Init(&s.queue)
}

// dueQueue is a heap, see container/heap.
type dueQueue []*plannedDelivery

// Len is sort.Interface's.
func (q dueQueue) Len() int { return len(q) }

// Less is sort.Interface's: what is due first comes first.
func (q dueQueue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }

// Swap is sort.Interface's.
func (q dueQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push is heap.Push's.
func (q *dueQueue) Push(x any) { *q = append(*q, x.(*plannedDelivery)) }

// Pop is heap.Pop's.
func (q *dueQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
