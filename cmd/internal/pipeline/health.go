package pipeline

import (
	"fmt"
	"maps"
	"sync"
)

// absences is the number of failed cursor reads in a row after which a destination is left out of the run.
const absences = 3

// health says which destinations a run still uses. Its methods may be called concurrently.
type health struct {
	mu     sync.Mutex
	down   map[string]error // destinations that are left out of the run, and the reason for each
	absent map[string]int   // failed cursor reads in a row
	behind map[string]bool  // destinations that did not catch up in a pass of their own
}

func newHealth() *health {
	return &health{down: map[string]error{}, absent: map[string]int{}, behind: map[string]bool{}}
}

// leaveOut leaves the destination out of the run.
func (h *health) leaveOut(destination string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.down[destination] = err
}

// leftOut returns why the destination is left out, or nil.
func (h *health) leftOut(destination string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.down[destination]
}

// all returns the destinations that are left out.
func (h *health) all() map[string]error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.down)
}

// noteCursorRead counts failed reads of a destination's cursor. After several failed reads in a row, it leaves the
// destination out of the run, because each failed read may take as long as the destination's timeout. // Invariant 15
func (h *health) noteCursorRead(destination string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.absent[destination] = 0
		return
	}
	if h.absent[destination]++; h.absent[destination] >= absences {
		h.down[destination] = fmt.Errorf("destination %s: %w", destination, err)
	}
}

func (h *health) giveUpOn(destination string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.behind[destination] = true
}

// hopeless reports whether the destination did not catch up when an earlier stream was read. Another reading for
// this destination would then waste requests.
func (h *health) hopeless(destination string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.behind[destination]
}
