package render

import (
	"fmt"
	"io"
	"os"
	"sync"

	"golang.org/x/term"

	"github.com/penstock-data/penstock/cmd/internal/failure"
)

// Screen is the output of messages. Below the messages, it can redraw a few lines of progress. It is safe for
// concurrent use.
type Screen struct {
	W io.Writer

	mu    sync.Mutex
	drawn int // number of redrawn lines at the bottom
}

// Write removes the drawn lines and writes b. The next call of draw shows lines again.
func (s *Screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	return s.W.Write(b)
}

// draw replaces the drawn lines.
func (s *Screen) draw(lines ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	width, known := columns(s.W)
	for _, l := range lines {
		// wipe removes only as many screen lines as were drawn, so a drawn line must not wrap.
		if r := []rune(l); known && len(r) >= width {
			l = string(r[:width-1])
		}
		fmt.Fprintln(s.W, l)
	}
	s.drawn = len(lines)
}

// clear removes the drawn lines.
func (s *Screen) clear() { s.draw() }

func (s *Screen) wipe() {
	if s.drawn > 0 {
		_, _ = io.WriteString(s.W, fmt.Sprintf("\x1b[%dA\x1b[J", s.drawn))
		s.drawn = 0
	}
}

// Output is where a command prints its result. It remembers the first write error, so that commands need not check
// every line they print. After a write error, the process does not exit with 0. // Invariant 14
type Output struct {
	io.Writer
	Err error
}

// Write writes b and keeps the first error.
func (o *Output) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if err != nil && o.Err == nil {
		o.Err = &OutputError{failure.PathCause(err)}
	}
	return n, err
}

// OutputError means that output could not be written. The tables may be complete.
type OutputError struct{ err error }

// Error implements error.
func (e *OutputError) Error() string { return fmt.Sprintf("write output: %v", e.err) }

// Unwrap returns the write error.
func (e *OutputError) Unwrap() error { return e.err }

// columns returns the width of the terminal w, or false if w is not a terminal.
func columns(w io.Writer) (n int, ok bool) {
	if o, wrapped := w.(*Output); wrapped {
		w = o.Writer
	}
	f, file := w.(*os.File)
	if !file {
		return 0, false
	}
	n, _, err := term.GetSize(int(f.Fd()))
	return n, err == nil && n > 1
}
