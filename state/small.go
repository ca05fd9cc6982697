package state

import (
	"fmt"
	"io"
)

// readSmall reads content that must be small. A larger file in its place is an error, and does not fill the memory.
// Invariant 6
func readSmall(r io.Reader, what string, most int) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", what, err)
	case len(text) > most:
		return nil, fmt.Errorf("read %s: more than %d bytes", what, most)
	}
	return text, nil
}
