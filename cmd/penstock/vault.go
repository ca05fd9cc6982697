package main

import (
	"errors"
	"fmt"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/state"
)

// vaultOf is where the tokens of a configuration's credentials are kept.
func vaultOf(c *config.Config) *state.Vault {
	if c.State.Keyring {
		return state.NewVault(c.State.Dir, state.Keyring{})
	}
	return state.NewVault(c.State.Dir, nil)
}

// signIns are the surfaces of a source that somebody signs in to, if it is safe
// to keep their tokens.
func signIns(c *config.Config, source string) ([]config.SignIn, error) {
	vault := vaultOf(c)
	all, err := c.SignIns(source, vault)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	if c.State.URL != "" {
		return nil, c.Fault(c.State.At, fmt.Sprintf("source %s keeps tokens, which takes a state folder of this machine", source))
	}
	if err := vault.Check(); errors.Is(err, state.ErrExposed) {
		return nil, usage("tokens are kept there; nothing was written", "%w", err)
	} else if err != nil {
		return nil, usage("`state:` in the configuration names the folder; let penstock write to it", "%w", err)
	}
	return all, nil
}
