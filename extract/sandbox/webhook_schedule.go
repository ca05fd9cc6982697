package sandbox

import (
	"container/heap"
	"time"
)

// schedule holds parcels by the time at which they are due. The zero value is
// empty.
type schedule struct{ queue dueQueue }

func (s *schedule) add(p *parcel) { heap.Push(&s.queue, p) }

// first is the parcel that is due next, nil for none.
func (s *schedule) first() *parcel {
	if len(s.queue) == 0 {
		return nil
	}
	return s.queue[0]
}

// take removes the first and returns it.
func (s *schedule) take() *parcel { return heap.Pop(&s.queue).(*parcel) }

// hasten makes those that may be due by now.
func (s *schedule) hasten(now time.Time, may func(*parcel) bool) {
	for _, p := range s.queue {
		if may(p) && p.due.After(now) {
			p.due = now
		}
	}
	heap.Init(&s.queue)
}

// dueQueue is a heap, see container/heap.
type dueQueue []*parcel

// Len is sort.Interface's.
func (q dueQueue) Len() int { return len(q) }

// Less is sort.Interface's: what is due first comes first.
func (q dueQueue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }

// Swap is sort.Interface's.
func (q dueQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push is heap.Push's.
func (q *dueQueue) Push(x any) { *q = append(*q, x.(*parcel)) }

// Pop is heap.Pop's.
func (q *dueQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
