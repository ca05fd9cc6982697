package main

import (
	"errors"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/state"
)

// signIns returns the surfaces of a source that need a sign-in. It returns an error if the vault cannot store
// their tokens safely.
func (a *app) signIns(c *config.Config, source string) ([]config.SignIn, error) {
	vault := a.stateOf(c).Vault()
	all, err := c.SignIns(source, vault)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	if err := vault.Check(); errors.Is(err, state.ErrExposed) {
		return nil, failure.Usage("tokens are stored there; nothing was written", "%w", err)
	} else if err != nil {
		return nil, stateTrouble(err)
	}
	return all, nil
}
