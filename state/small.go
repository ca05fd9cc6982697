package state

import (
	"fmt"
	"io"
)

// readSmall returns an error for content of more than limit bytes, which does not fill the memory. Invariant 6
func readSmall(r io.Reader, what string, limit int) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", what, err)
	case len(text) > limit:
		return nil, fmt.Errorf("read %s: more than %d bytes", what, limit)
	}
	return text, nil
}
