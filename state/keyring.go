package state

import (
	"errors"
	"fmt"

	"github.com/zalando/go-keyring"
)

// Keyring is the [Ring] of the operating system: the macOS Keychain, the Windows Credential Manager, or the Secret
// Service of a Linux desktop. A server without a desktop has none.
type Keyring struct{}

var _ Ring = Keyring{}

const keyringService = "penstock"

// Get returns the text that is stored under the name, or "" if there is none.
func (Keyring) Get(name string) (string, error) {
	text, err := keyring.Get(keyringService, name)
	switch {
	case errors.Is(err, keyring.ErrNotFound):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("read the keyring: %w", err)
	}
	return text, nil
}

// Set stores the text under the name. An empty text removes the entry. Some systems accept at most 2,500 bytes.
func (Keyring) Set(name, text string) error {
	if text == "" {
		if err := keyring.Delete(keyringService, name); err != nil && !errors.Is(err, keyring.ErrNotFound) {
			return fmt.Errorf("write to the keyring: %w", err)
		}
		return nil
	}
	if err := keyring.Set(keyringService, name, text); err != nil {
		return fmt.Errorf("write to the keyring: %w", err)
	}
	return nil
}
