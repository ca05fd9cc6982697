package fleet

import "time"

// meanDuration is a moving mean with a moving deviation. TCP estimates round-trip times in the same way.
type meanDuration struct{ mean, deviation time.Duration }

func (m *meanDuration) observe(d time.Duration) {
	if m.mean == 0 {
		m.mean, m.deviation = d, d/2
		return
	}
	m.deviation += ((m.mean - d).Abs() - m.deviation) / 4
	m.mean += (d - m.mean) / 8
}

// timeout returns the time after which an answer is overdue. It is at least an eighth of the patience, so that a busy
// machine does not make a source look silent.
func (m *meanDuration) timeout(patience time.Duration) time.Duration {
	if m.mean == 0 {
		return patience
	}
	return min(patience, max(patience/8, 2*m.mean+4*m.deviation))
}

// overdue returns the time after which an answer is so late that other jobs go first. If all answers are late, because
// the machine or the network is busy, a late answer is not overdue. Before the first answer, nothing is known about the
// usual time. // Invariant 15
func (m *meanDuration) overdue(patience time.Duration) time.Duration {
	if m.mean == 0 {
		return longSilence * patience
	}
	return min(max(patience, 2*m.mean+4*m.deviation), longestSilence*patience)
}
