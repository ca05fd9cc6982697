package state

import (
	"fmt"
	"os"
	"path/filepath"
)

// PinPath is the file of the state folder dir that holds the scheme learned for
// a source.
func PinPath(dir, source string) string {
	return filepath.Join(dir, "webhooks", source+".yaml")
}

// Pin returns the text of the scheme that was learned for a source, or nil where
// none was. A file that others may read or that is none is [ErrExposed],
// wrapped: whoever may write there says who is believed.
func Pin(dir, source string) ([]byte, error) {
	text, err := readPrivate(PinPath(dir, source))
	if err != nil {
		return nil, fmt.Errorf("read learned scheme: %w", err)
	}
	return text, nil
}

// SetPin keeps the scheme that was learned for a source in the place of the one
// before, whole or not at all, readable by nobody else. When it returns, a power
// cut cannot take it back. One caller at a time.
func SetPin(dir, source string, text []byte) error {
	path := PinPath(dir, source)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("keep learned scheme: %w", err)
	}
	if err := writePrivate(path, text, func(string) {}); err != nil {
		return fmt.Errorf("keep learned scheme: %w", err)
	}
	return nil
}
