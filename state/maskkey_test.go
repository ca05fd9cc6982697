package state

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMaskKeyCreatedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "mask.key")
	var mu sync.Mutex
	keys, made := map[string]bool{}, 0
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			key, m, err := MaskKey(path)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			keys[key] = true
			if m {
				made++
			}
		})
	}
	all.Wait()
	require.Len(t, keys, 1)
	require.Equal(t, 1, made)
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1, "nothing else is left behind")
}

func TestInvalidMaskKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mask.key")
	for _, text := range []string{"", "abc", "zz" + string(make([]byte, 62))} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, _, err := MaskKey(path)
		require.ErrorContains(t, err, "not a key")
	}
	require.NoError(t, os.Chmod(path, 0o644))
	_, _, err := MaskKey(path)
	require.ErrorContains(t, err, "chmod 600")
}
