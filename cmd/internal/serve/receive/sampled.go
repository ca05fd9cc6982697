package receive

import (
	"log/slog"
	"sync"
	"time"
)

// linesEach is the maximum number of lines per second.
const linesEach = 10

// sampled is a log that writes only the first lines of each second. If lines were omitted, the first line of the next
// second reports their number.
type sampled struct {
	log *slog.Logger

	mu      sync.Mutex
	second  time.Time
	written int
	omitted int
}

func (s *sampled) warn(text string, args ...any) {
	write, omitted := s.next(time.Now())
	if omitted > 0 {
		s.log.Warn("further refused webhooks not listed", "more", omitted)
	}
	if write {
		s.log.Warn(text, args...)
	}
}

func (s *sampled) next(now time.Time) (write bool, omitted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if since := now.Sub(s.second); since >= time.Second || since < 0 {
		omitted, s.omitted = s.omitted, 0
		s.second, s.written = now, 0
		if omitted > 0 {
			s.written = 1 // the line with the number of omitted lines counts too
		}
	}
	if s.written >= linesEach {
		s.omitted++
		return false, omitted
	}
	s.written++
	return true, omitted
}
