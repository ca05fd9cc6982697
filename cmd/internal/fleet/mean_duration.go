package fleet

import "time"

// meanDuration is how long something takes, learned from each time it has: a mean and
// how far it is missed by, as TCP learns of a round trip. The zero value has seen
// nothing.
type meanDuration struct{ mean, miss time.Duration }

func (p *meanDuration) took(d time.Duration) {
	if p.mean == 0 {
		p.mean, p.miss = d, d/2
		return
	}
	p.miss += ((p.mean - d).Abs() - p.miss) / 4
	p.mean += (d - p.mean) / 8
}

// late is after how long it is no longer to be expected: patience at most, and not
// so little that a busy machine would be taken for a silent source.
func (p *meanDuration) late(patience time.Duration) time.Duration {
	if p.mean == 0 {
		return patience
	}
	return min(patience, max(patience/8, 2*p.mean+4*p.miss))
}
