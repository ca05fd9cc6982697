package state

import (
	"fmt"
	"io"
)

// readSmall reads at most limit bytes. It returns an error if there are more. Invariant 6
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
