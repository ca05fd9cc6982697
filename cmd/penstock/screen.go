package main

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"
)

// screen is where messages go: a stream of lines, below which a few may be
// drawn over and over. It is safe for concurrent use.
type screen struct {
	w io.Writer

	mu    sync.Mutex
	drawn int // lines at the bottom that are drawn
}

// Write adds to the lines above what is drawn, which is gone until it is drawn
// again.
func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	return s.w.Write(b)
}

// draw puts lines in the place of those drawn before.
func (s *screen) draw(lines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	width, known := columns(s.w)
	for _, l := range lines {
		// A line that wraps could not be taken back.
		if r := []rune(l); known && len(r) >= width {
			l = string(r[:width-1])
		}
		fmt.Fprintln(s.w, l)
	}
	s.drawn = len(lines)
}

// clear takes back what is drawn.
func (s *screen) clear() { s.draw() }

func (s *screen) wipe() {
	if s.drawn > 0 {
		_, _ = io.WriteString(s.w, fmt.Sprintf("\x1b[%dA\x1b[J", s.drawn))
		s.drawn = 0
	}
}

// columns is the width of the terminal that w is; ok is false where it is none.
func columns(w io.Writer) (n int, ok bool) {
	f, file := w.(*os.File)
	if !file {
		return 0, false
	}
	n, _, err := term.GetSize(int(f.Fd()))
	return n, err == nil && n > 1
}
