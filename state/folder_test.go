package state

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// If other users can write to the folder of a note, they can forge the note. So it is not read.
func TestFolderNotesPrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("only Unix has file modes")
	}
	ctx, f := t.Context(), &Folder{Dir: t.TempDir()}
	path := filepath.Join(f.Dir, "webhooks", "main.yaml")
	set := func(was, text []byte) error { return f.Notes().SetNote(ctx, "webhooks/main.yaml", was, text) }
	require.NoError(t, set(nil, []byte("scheme: {}\n")))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.NoError(t, os.Chmod(path, 0o644))
	_, err = f.Notes().Note(ctx, "webhooks/main.yaml")
	require.ErrorIs(t, err, ErrExposed)
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Symlink(filepath.Join(f.Dir, "elsewhere"), path))
	require.ErrorIs(t, set(nil, []byte("scheme: {}\n")), ErrExposed)
	require.Error(t, f.Notes().SetNote(ctx, "../main.yaml", nil, []byte("x")))
}
