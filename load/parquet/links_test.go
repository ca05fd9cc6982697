//go:build unix

package parquet

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Links inside a lake are refused. The lake's own folder may be a link.
func TestLinksInside(t *testing.T) {
	for name, link := range map[string]func(lake string) string{
		"stream":     func(lake string) string { return filepath.Join(lake, "crm.leads") },
		"generation": func(lake string) string { return filepath.Join(lake, "crm.leads", genName(1)) },
		"manifest":   func(lake string) string { return filepath.Join(lake, "crm.leads", genName(1), manifestName) },
		"table":      func(lake string) string { return filepath.Join(lake, "crm.leads", genName(1), "crm_leads") },
		"file": func(lake string) string {
			files, _ := filepath.Glob(filepath.Join(lake, "crm.leads", genName(1), "crm_leads", "*"))
			return files[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			lake, elsewhere := filepath.Join(t.TempDir(), "lake"), filepath.Join(t.TempDir(), "elsewhere")
			l := openLake(t, lake, Options{})
			at := must(t, l, 1, "", before...)
			require.NoError(t, l.Close())
			part := link(lake)
			require.NoError(t, os.Rename(part, elsewhere))
			require.NoError(t, os.Symlink(elsewhere, part))
			held := tree(t, elsewhere)
			l = openLake(t, lake, Options{})
			_, err := put(t.Context(), t, l, 2, at, before[1:]...)
			require.ErrorContains(t, err, "which is not followed inside a lake")
			files, err := l.Files(t.Context())
			if name == "stream" {
				require.NoError(t, err)
				require.Empty(t, files["crm_leads"])
			} else {
				require.ErrorContains(t, err, "which is not followed inside a lake")
			}
			require.NoError(t, l.Close())
			require.Equal(t, held, tree(t, elsewhere))
		})
	}
	t.Run("control: the lake's own folder", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.Mkdir(filepath.Join(dir, "disk"), 0o755))
		require.NoError(t, os.Symlink("disk", filepath.Join(dir, "lake")))
		l := openLake(t, filepath.Join(dir, "lake"), Options{})
		at := must(t, l, 1, "", before...)
		must(t, l, 2, at, before...)
		require.Equal(t, wanted(before...), names(t, l))
		files, err := l.Files(t.Context())
		require.NoError(t, err)
		require.NotEmpty(t, files["crm_leads"])
	})
}

func TestOutside(t *testing.T) {
	lake := filepath.Join(t.TempDir(), "lake")
	l := openLake(t, lake, Options{})
	must(t, l, 1, "", before...)
	require.NoError(t, l.Close())
	name := filepath.Join(lake, "crm.leads", genName(1), manifestName)
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	forged := bytes.Replace(text, []byte(`"crm_leads/`), []byte(`"../crm_leads/`), 1)
	if bytes.Equal(text, forged) {
		forged = bytes.ReplaceAll(text, []byte(`"folder":"crm_leads"`), []byte(`"folder":"../../x"`))
	}
	require.NotEqual(t, string(text), string(forged))
	require.NoError(t, os.WriteFile(name, forged, 0o644))
	l, err = Open(t.Context(), Options{Path: lake, TempDir: t.TempDir()})
	if err == nil {
		_, err = l.Files(t.Context())
		require.NoError(t, l.Close())
	}
	require.ErrorContains(t, err, "outside of the folder")
}

func tree(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || strings.Contains(e.Name(), ".lock") {
			return err
		}
		text, err := os.ReadFile(path)
		out[path] = string(text)
		return err
	}))
	return out
}

func TestModes(t *testing.T) {
	for _, c := range []struct {
		umask        int
		mode         fs.FileMode
		file, folder fs.FileMode
	}{
		{0o000, 0, 0o644, 0o755},
		{0o002, 0, 0o644, 0o755},
		{0o027, 0, 0o640, 0o750},
		{0o077, 0, 0o600, 0o700},
		{0o077, 0o664, 0o664, 0o775},
		{0o022, 0o640, 0o640, 0o750},
	} {
		t.Run(fmt.Sprintf("%03o %03o", c.umask, c.mode), func(t *testing.T) {
			lake := filepath.Join(t.TempDir(), "lake")
			old := syscall.Umask(c.umask)
			defer syscall.Umask(old)
			l := openLake(t, lake, Options{Mode: c.mode})
			at := must(t, l, 1, "", before...)
			must(t, l, 2, at, before[1:]...)
			require.NoError(t, filepath.WalkDir(lake, func(path string, e fs.DirEntry, err error) error {
				require.NoError(t, err)
				info, err := e.Info()
				require.NoError(t, err)
				switch {
				case e.IsDir():
					require.Equal(t, c.folder, info.Mode().Perm(), path)
				case e.Type().IsRegular() && !strings.Contains(e.Name(), lockName):
					require.Equal(t, c.file, info.Mode().Perm(), path)
				}
				return nil
			}))
		})
	}
}
