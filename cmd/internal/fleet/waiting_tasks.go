package fleet

import "slices"

// waitingTasks holds the tasks of one round. Their sources take turns.
type waitingTasks struct {
	queues []*queue
	turn   int
	of     map[string]*queue
}

type queue struct {
	source string
	tasks  []*task
}

func (l *waitingTasks) add(t *task) {
	if l.of == nil {
		l.of = map[string]*queue{}
	}
	q := l.of[t.Source]
	if q == nil {
		q = &queue{source: t.Source}
		l.of[t.Source] = q
		l.queues = append(l.queues, q)
	}
	q.tasks = append(q.tasks, t)
}

func (l *waitingTasks) next(allowed func(source string) bool) *task {
	for i := range l.queues {
		at := (l.turn + i) % len(l.queues)
		q := l.queues[at]
		if !allowed(q.source) {
			continue
		}
		t := q.tasks[0]
		q.tasks = q.tasks[1:]
		l.turn = at + 1
		if len(q.tasks) == 0 {
			l.queues = slices.Delete(l.queues, at, at+1)
			delete(l.of, q.source)
			l.turn = at
		}
		return t
	}
	return nil
}
