package state

import (
	"errors"
	"fmt"

	"github.com/zalando/go-keyring"
)

// Keyring is the [Ring] of the operating system: the Keychain of macOS, the
// Credential Manager of Windows, the Secret Service of a Linux desktop. A
// server without a desktop has none.
type Keyring struct{}

var _ Ring = Keyring{}

// keyringService is what the entries are filed under.
const keyringService = "penstock"

// Get returns the text, "" if there is none.
func (Keyring) Get(name string) (string, error) {
	text, err := keyring.Get(keyringService, name)
	switch {
	case errors.Is(err, keyring.ErrNotFound):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("ask the keyring: %w", err)
	}
	return text, nil
}

// Set keeps the text; "" removes it. Some systems take no more than 2,500 bytes.
func (Keyring) Set(name, text string) error {
	if text == "" {
		if err := keyring.Delete(keyringService, name); err != nil && !errors.Is(err, keyring.ErrNotFound) {
			return fmt.Errorf("ask the keyring: %w", err)
		}
		return nil
	}
	if err := keyring.Set(keyringService, name, text); err != nil {
		return fmt.Errorf("ask the keyring: %w", err)
	}
	return nil
}
