package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// maxNote is more than any note takes.
const maxNote = 16 << 20

// ReadNote reads a small file of the state folder, nil where there is none.
func ReadNote(path string) ([]byte, error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read note: %w", err)
	}
	defer f.Close()
	return readSmall(f, "note "+path, maxNote)
}

// WriteNote puts text in the place of the file path, whole or not at all, and
// makes its folder where it is missing. Only this user can read it. When it
// returns, a power cut cannot take it back.
func WriteNote(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write note: %w", err)
	}
	return writePrivate(path, text, func(string) {})
}
