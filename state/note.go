package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const maxNote = 16 << 20

// ReadNote reads a small file of the state folder. It returns nil if the file does not exist.
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

// WriteNote replaces the content of the file at path, completely or not at all. If the folder of the file is missing,
// WriteNote creates it. Only this user can read the file. When WriteNote returns, the change is durable.
func WriteNote(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write note: %w", err)
	}
	return writePrivate(path, text, func(string) {})
}
