package receive

import (
	"log/slog"
	"sync"
	"time"
)

// linesEach is the maximum number of lines per second.
const linesEach = 10

// sampled is a log that writes only the first lines of each second. In the next second, its first line is the
// number of lines that it has left out.
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
		s.log.Warn("further refused webhooks not listed", "more", left)
	}
	if write {
		s.log.Warn(text, args...)
	}
}

func (s *sampled) next(now time.Time) (write bool, left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := now.Sub(s.second); since >= time.Second || since < 0 {
		left, s.left = s.left, 0
		s.second, s.written = now, 0
		if left > 0 {
			s.written = 1 // the line with the number of omitted lines counts too
		}
	}
	if s.written >= linesEach {
		s.left++
		return false, left
	}
	s.written++
	return true, left
}
