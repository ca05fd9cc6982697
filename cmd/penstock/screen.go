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

// outlet is where data goes. It keeps the first error of writing, so that what
// is printed for people need not look at every line, and a verb whose output was
// lost does not end as if it had been read. // Invariant 14
type outlet struct {
	io.Writer
	err error
}

// Write writes b and remembers the first time that it could not.
func (o *outlet) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if err != nil && o.err == nil {
		o.err = &outputError{pathCause(err)}
	}
	return n, err
}

// outputError says that what was printed did not arrive. It has nothing to do
// with the tables.
type outputError struct{ err error }

// Error says that it was the output.
func (e *outputError) Error() string { return fmt.Sprintf("write output: %v", e.err) }

// Unwrap returns what kept it from being written.
func (e *outputError) Unwrap() error { return e.err }

// columns is the width of the terminal that w is; ok is false where it is none.
func columns(w io.Writer) (n int, ok bool) {
	if o, wrapped := w.(*outlet); wrapped {
		w = o.Writer
	}
	f, file := w.(*os.File)
	if !file {
		return 0, false
	}
	n, _, err := term.GetSize(int(f.Fd()))
	return n, err == nil && n > 1
}
