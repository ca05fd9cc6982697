package open

import (
	"errors"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/cmd/internal/failure"
	"github.com/penstock-data/penstock/state"
)

// SignIns returns the surfaces of a source that need a sign-in. It returns an error if the vault cannot store
// their tokens safely.
func (o *Opener) SignIns(c *config.Config, source string) ([]config.SignIn, error) {
	vault := o.State(c).Vault()
	all, err := c.SignIns(source, vault)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	if err := vault.Check(); errors.Is(err, state.ErrExposed) {
		// Cause: other users could read or change the state folder
		return nil, failure.Usage("penstock would store tokens in this place; nothing was written", "%w", err)
	} else if err != nil {
		return nil, StateTrouble(err)
	}
	return all, nil
}
