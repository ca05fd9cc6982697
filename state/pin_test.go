package state

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPinIsKeptForItsOwnerAlone(t *testing.T) {
	dir := t.TempDir()
	text, err := Pin(dir, "main")
	require.NoError(t, err)
	require.Nil(t, text)
	for _, want := range []string{"scheme: {}\n", "scheme: {name: other}\n"} {
		require.NoError(t, SetPin(dir, "main", []byte(want)))
		text, err = Pin(dir, "main")
		require.NoError(t, err)
		require.Equal(t, want, string(text))
	}
	other, err := Pin(dir, "other")
	require.NoError(t, err)
	require.Nil(t, other)
	if runtime.GOOS == "windows" {
		return
	}
	info, err := os.Stat(PinPath(dir, "main"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, os.Chmod(PinPath(dir, "main"), 0o644))
	_, err = Pin(dir, "main")
	require.ErrorIs(t, err, ErrExposed)
	require.NoError(t, os.Remove(PinPath(dir, "main")))
	require.NoError(t, os.Symlink(filepath.Join(dir, "elsewhere"), PinPath(dir, "main")))
	_, err = Pin(dir, "main")
	require.ErrorIs(t, err, ErrExposed)
	require.ErrorIs(t, SetPin(dir, "main", nil), ErrExposed)
}
