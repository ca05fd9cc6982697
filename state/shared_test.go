package state

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// change calls s.Change again until the file is free.
func change(t testing.TB, s *LockedFile, mem []byte, f func() bool) {
	t.Helper()
	for {
		done, err := s.Change(mem, f)
		require.NoError(t, err)
		if done {
			return
		}
		runtime.Gosched()
	}
}

// count adds one to the number in the file.
func count(t *testing.T, s *LockedFile) {
	t.Helper()
	mem := make([]byte, 16)
	change(t, s, mem, func() bool {
		binary.LittleEndian.PutUint64(mem, binary.LittleEndian.Uint64(mem)+1)
		return true
	})
}

func counted(t *testing.T, s *LockedFile) (n int) {
	t.Helper()
	mem := make([]byte, 16)
	change(t, s, mem, func() bool { n = int(binary.LittleEndian.Uint64(mem)); return false })
	return n
}

// No change is lost, whichever process makes it.
func TestShared(t *testing.T) {
	const each = 2000
	if path := os.Getenv("PENSTOCK_TEST_SHARED"); path != "" {
		s, err := OpenShared(path)
		require.NoError(t, err)
		for range each {
			count(t, s)
		}
		return
	}
	path := filepath.Join(t.TempDir(), "budget", "one")
	s, err := OpenShared(path)
	require.NoError(t, err)
	defer s.Close()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestShared$")
			child.Env = append(os.Environ(), "PENSTOCK_TEST_SHARED="+path)
			out, err := child.CombinedOutput()
			require.NoError(t, err, string(out))
		})
	}
	for range each {
		count(t, s)
	}
	wg.Wait()
	require.Equal(t, 4*each, counted(t, s))
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, "-rw-------", fmt.Sprint(info.Mode()))
}

// A file that was removed is created again, and all processes use the same new one.
func TestSharedRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "one")
	a, err := OpenShared(path)
	require.NoError(t, err)
	defer a.Close()
	b, err := OpenShared(path)
	require.NoError(t, err)
	defer b.Close()
	count(t, a)
	require.NoError(t, os.Remove(path))
	a.looked, b.looked = time.Time{}, time.Time{}
	count(t, a)
	count(t, b)
	require.Equal(t, 2, counted(t, a))
}

// Change does not wait for a process that holds the file.
func TestSharedHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "one")
	a, err := OpenShared(path)
	require.NoError(t, err)
	b, err := OpenShared(path)
	require.NoError(t, err)
	change(t, a, nil, func() bool {
		done, err := b.Change(nil, func() bool { return false })
		require.NoError(t, err)
		require.False(t, done)
		return false
	})
	change(t, b, nil, func() bool { return false })
	require.NoError(t, a.Close())
	require.NoError(t, a.Close(), "a second close does nothing")
	_, err = a.Change(nil, func() bool { return false })
	require.Error(t, err)
	require.NoError(t, b.Close())
}

func BenchmarkShared(b *testing.B) {
	s, err := OpenShared(filepath.Join(b.TempDir(), "one"))
	require.NoError(b, err)
	defer s.Close()
	mem := make([]byte, 8<<10)
	for b.Loop() {
		change(b, s, mem, func() bool { return true })
	}
}
