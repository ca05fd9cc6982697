package files

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/penstock-data/penstock/extract"
)

func TestFolderKeepsInside(t *testing.T) {
	dir := t.TempDir()
	d := Folder(filepath.Join(dir, "files"))
	for _, path := range []string{"../x", "/x", "a/../../x", ""} {
		require.Error(t, d.Keep([]extract.File{{Path: path, Body: []byte("x")}}), path)
		require.False(t, d.Has(path))
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries)
}

// The folder itself may be a symbolic link. A link inside the folder is refused.
func TestFilesLink(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(dir, filepath.Join(elsewhere, "files")))
	d := Folder(filepath.Join(elsewhere, "files"))
	file := extract.File{Path: "x_paper/ab/abcd.pdf", Body: []byte("%PDF-")}
	require.NoError(t, d.Keep([]extract.File{file}))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "x_paper")))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "x_paper")))
	require.ErrorContains(t, d.Keep([]extract.File{file}), "is a symbolic link and is not followed")
	require.NoFileExists(t, filepath.Join(elsewhere, "ab", "abcd.pdf"))
}
