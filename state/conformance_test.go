package state_test

import (
	"testing"

	"github.com/penstock-data/penstock/state"
	"github.com/penstock-data/penstock/state/statetest"
)

func TestFolderConforms(t *testing.T) {
	statetest.Run(t, statetest.Rig{Fresh: func(t *testing.T) func() state.Store {
		dir := t.TempDir()
		return func() state.Store { return &state.Folder{Dir: dir} }
	}})
}
