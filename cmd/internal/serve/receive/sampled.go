package receive

import (
	"log/slog"
	"sync"
	"time"
)

// linesEach is how many lines a second may bring.
const linesEach = 10

// sampled is a log that a flood cannot fill: of the lines of a second it writes
// the first few, and then says how many there were besides.
type sampled struct {
	log *slog.Logger

	mu      sync.Mutex
	second  time.Time
	written int
	left    int
}

func (s *sampled) warn(text string, args ...any) {
	write, left := s.next(time.Now())
	if left > 0 {
		s.log.Warn("more webhooks were refused than are listed", "more", left)
	}
	if write {
		s.log.Warn(text, args...)
	}
}

// next reports whether a line may be written now, and how many were not in the
// time before, if that has not been said.
func (s *sampled) next(now time.Time) (write bool, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := now.Sub(s.second); since >= time.Second || since < 0 {
		left, s.left = s.left, 0
		s.second, s.written = now, 0
		if left > 0 {
			s.written = 1 // what says so is a line, too
		}
	}
	if s.written >= linesEach {
		s.left++
		return false, left
	}
	s.written++
	return true, left
}
