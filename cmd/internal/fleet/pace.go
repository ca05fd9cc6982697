package fleet

import "time"

// pace is how long something takes, learned from each time it has: a mean and
// how far it is missed by, as TCP learns of a round trip. The zero value has seen
// nothing.
type pace struct{ mean, miss time.Duration }

func (p *pace) took(d time.Duration) {
	if p.mean == 0 {
		p.mean, p.miss = d, d/2
		return
	}
	p.miss += ((p.mean - d).Abs() - p.miss) / 4
	p.mean += (d - p.mean) / 8
}

// late is after how long it is no longer to be expected: patience at most, and not
// so little that a busy machine would be taken for a silent source.
func (p *pace) late(patience time.Duration) time.Duration {
	if p.mean == 0 {
		return patience
	}
	return min(patience, max(patience/8, 2*p.mean+4*p.miss))
}

// What is known of jobs that wait for their first answer.
const (
	lately     = 16       // of so many jobs
	leastShare = 1. / 16. // counts for something, however many are silent
)

// beat takes note of an answer.
func (s *shift) beat(t *task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if t.answered {
		s.gaps.took(now.Sub(t.last))
	} else {
		s.first.took(now.Sub(t.began))
	}
	t.answered, t.last = true, now
	s.judge(t)
}

// judge counts, once, whether a job was answered: where it was, where its answer
// is overdue, and where it ended without one. s.mu is held.
func (s *shift) judge(t *task) {
	if t.judged {
		return
	}
	t.judged = true
	got := 0.
	if t.answered {
		got = 1
	}
	s.share = max(leastShare, s.share+(got-s.share)/lately)
}
