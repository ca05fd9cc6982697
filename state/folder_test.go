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

// A note that cannot be read hides no other note.
func TestFolderNotesInWithFaults(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("only Unix has file modes")
	}
	ctx, f := t.Context(), &Folder{Dir: t.TempDir()}
	for _, name := range []string{"after/a.json", "after/b.json", "after/d.json"} {
		require.NoError(t, f.Notes().SetNote(ctx, name, nil, []byte(name)))
	}
	after := filepath.Join(f.Dir, "after")
	require.NoError(t, os.Chmod(filepath.Join(after, "a.json"), 0o644))
	require.NoError(t, os.Symlink(filepath.Join(after, "b.json"), filepath.Join(after, "c.json")))
	all, err := f.Notes().NotesIn(ctx, "after")
	require.ErrorIs(t, err, ErrExposed)
	require.ErrorContains(t, err, "a.json")
	require.ErrorContains(t, err, "c.json")
	require.Equal(t, map[string][]byte{"after/b.json": []byte("after/b.json"), "after/d.json": []byte("after/d.json")}, all)
}
