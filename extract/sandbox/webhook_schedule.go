package sandbox

import (
	"container/heap"
	"time"
)

type schedule struct{ queue dueQueue }

func (s *schedule) add(p *plannedDelivery) { heap.Push(&s.queue, p) }

func (s *schedule) first() *plannedDelivery {
	if len(s.queue) == 0 {
		return nil
	}
	return s.queue[0]
}

func (s *schedule) take() *plannedDelivery { return heap.Pop(&s.queue).(*plannedDelivery) }

func (s *schedule) hasten(now time.Time, allowed func(*plannedDelivery) bool) {
	for _, p := range s.queue {
		if allowed(p) && p.due.After(now) {
			p.due = now
		}
	}
	heap.Init(&s.queue)
}

type dueQueue []*plannedDelivery

// Len implements sort.Interface.
func (q dueQueue) Len() int { return len(q) }

// Less implements sort.Interface: the earlier due time comes first.
func (q dueQueue) Less(i, j int) bool { return q[i].due.Before(q[j].due) }

// Swap implements sort.Interface.
func (q dueQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *dueQueue) Push(x any) { *q = append(*q, x.(*plannedDelivery)) }

// Pop implements heap.Interface.
func (q *dueQueue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
