package state

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNote(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "alerts.json")
	text, err := ReadNote(path)
	require.NoError(t, err)
	require.Nil(t, text)

	for _, want := range []string{"one", "two"} {
		require.NoError(t, WriteNote(path, []byte(want)))
		text, err = ReadNote(path)
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())

	require.NoError(t, os.Truncate(path, maxNote+1))
	_, err = ReadNote(path)
	require.ErrorContains(t, err, "more than")
}
