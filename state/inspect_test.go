//go:build unix

package state

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFolderExposed(t *testing.T) {
	spoils := map[string]func(dir string) error{
		"writable by a group":   func(dir string) error { return os.Chmod(dir, 0o770) },
		"writable by all users": func(dir string) error { return os.Chmod(dir, 0o777) },
		"sticky":                func(dir string) error { return os.Chmod(dir, 0o777|os.ModeSticky) },
		"of another user":       func(dir string) error { return os.Chown(dir, 65534, -1) },
	}
	uses := map[string]func(t *testing.T, f *Folder) error{
		"lease": func(t *testing.T, f *Folder) error {
			l, err := f.Lease(t.Context(), "p", "", 0)
			if err == nil {
				err = l.Release()
			}
			return err
		},
		"note":    func(t *testing.T, f *Folder) error { _, err := f.Notes().Note(t.Context(), "n"); return err },
		"journal": func(t *testing.T, f *Folder) error { return closed(f.OpenJournal(t.Context())) },
		"units":   func(t *testing.T, f *Folder) error { return closed(f.OpenUnits(t.Context())) },
		"sources": func(t *testing.T, f *Folder) error { return closed(f.OpenSources(t.Context())) },
		"history": func(t *testing.T, f *Folder) error { return closed(f.OpenHistory(t.Context())) },
		"inbox":   func(t *testing.T, f *Folder) error { return closed(f.OpenInbox(t.Context(), InboxOptions{})) },
		"key": func(_ *testing.T, f *Folder) error {
			_, _, err := MaskKey(filepath.Join(f.Dir, "mask.key"))
			return err
		},
		"vault": func(_ *testing.T, f *Folder) error { _, err := f.Vault().Entry("s").Secret(); return err },
	}
	for use, do := range uses {
		t.Run(use+" control", func(t *testing.T) {
			require.NoError(t, do(t, &Folder{Dir: filepath.Join(t.TempDir(), "state")}))
			mine := filepath.Join(t.TempDir(), "readable") // other users may list the folder, but its files have mode 0600
			require.NoError(t, os.Mkdir(mine, 0o755))
			require.NoError(t, do(t, &Folder{Dir: mine}))
		})
		for name, spoil := range spoils {
			t.Run(use+" "+name, func(t *testing.T) {
				if name == "of another user" && os.Geteuid() != 0 {
					t.Skip("only root can change the owner of a folder")
				}
				f := &Folder{Dir: filepath.Join(t.TempDir(), "state")}
				require.NoError(t, os.Mkdir(f.Dir, 0o700))
				require.NoError(t, spoil(f.Dir))
				require.ErrorIs(t, do(t, f), ErrExposed)
			})
		}
	}
}

func closed[C interface{ Close() error }](c C, err error) error {
	if err != nil {
		return err
	}
	return c.Close()
}

// Files that name a program to run must belong to this user or to root. No other user may have the right to write to
// these files.
func TestOnlyOurs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipelines.yaml")
	require.NoError(t, os.WriteFile(path, nil, 0o644))
	for mode, safe := range map[os.FileMode]bool{0o644: true, 0o600: true, 0o444: true, 0o664: false, 0o646: false, 0o666: false} {
		require.NoError(t, os.Chmod(path, mode))
		if err := OnlyOurs(path); safe {
			require.NoError(t, err, "%o", mode)
		} else {
			require.ErrorIs(t, err, ErrExposed, "%o", mode)
		}
	}
	require.NoError(t, OnlyOurs("/"), "a folder of root is accepted")
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chmod(path, 0o600))
		require.NoError(t, os.Chown(path, 65534, -1))
		require.ErrorIs(t, OnlyOurs(path), ErrExposed)
	}
}
