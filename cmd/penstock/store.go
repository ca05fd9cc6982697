package main

import (
	"errors"
	"sync"

	"github.com/penstock-data/penstock/cmd/internal/config"
	"github.com/penstock-data/penstock/state"
)

// stores are the places of state that this process uses, each opened once.
type stores struct {
	mu  sync.Mutex
	all map[config.State]state.Store
}

// stateOf is where a configuration keeps its state. It stays open until the verb
// has ended.
func (a *app) stateOf(c *config.Config) state.Store {
	at := c.State
	at.At = config.Pos{} // it is the same wherever it stands in the file
	a.stores.mu.Lock()
	defer a.stores.mu.Unlock()
	if s, open := a.stores.all[at]; open {
		return s
	}
	if a.stores.all == nil {
		a.stores.all = map[config.State]state.Store{}
	}
	a.stores.all[at] = openState(at)
	return a.stores.all[at]
}

func openState(at config.State) state.Store {
	f := &state.Folder{Dir: at.Dir}
	if at.Keyring {
		f.Ring = state.Keyring{}
	}
	return f
}

// close gives up what is open.
func (s *stores) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, one := range s.all {
		errs = append(errs, one.Close())
	}
	s.all = nil
	return errors.Join(errs...)
}

// stateTrouble says what a person can do where the state cannot be used.
func stateTrouble(err error) error {
	return usage("`state:` in the configuration names the folder; let penstock write to it", "%w", err)
}
