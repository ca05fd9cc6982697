package state

import (
	"bytes"
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

func change(t testing.TB, s *LockedFile, f func([]byte) []byte) {
	t.Helper()
	for {
		done, err := s.Change(f)
		require.NoError(t, err)
		if done {
			return
		}
		runtime.Gosched()
	}
}

func count(t *testing.T, s *LockedFile) {
	t.Helper()
	change(t, s, func(stored []byte) []byte { return binary.LittleEndian.AppendUint64(nil, number(stored)+1) })
}

func counted(t *testing.T, s *LockedFile) (n int) {
	t.Helper()
	change(t, s, func(stored []byte) []byte { n = int(number(stored)); return nil })
	return n
}

func number(stored []byte) uint64 {
	if len(stored) == 0 {
		return 0
	}
	return binary.LittleEndian.Uint64(stored)
}

// A file of any length is read as a whole, and does not become shorter.
func TestSharedLength(t *testing.T) {
	s, err := OpenShared(filepath.Join(t.TempDir(), "one"))
	require.NoError(t, err)
	defer s.Close()
	for _, n := range []int{0, 1, 4<<10 - 1, 4 << 10, 4<<10 + 1, 100_000} {
		long := bytes.Repeat([]byte{7}, n)
		change(t, s, func([]byte) []byte { return long })
		change(t, s, func(stored []byte) []byte { require.Equal(t, long, append([]byte{}, stored...)); return nil })
	}
	change(t, s, func([]byte) []byte { return []byte{8} })
	change(t, s, func(stored []byte) []byte {
		require.Len(t, stored, 100_000)
		require.EqualValues(t, 8, stored[0])
		return nil
	})
}

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

func TestSharedHeld(t *testing.T) {
	path := filepath.Join(t.TempDir(), "one")
	a, err := OpenShared(path)
	require.NoError(t, err)
	b, err := OpenShared(path)
	require.NoError(t, err)
	nothing := func([]byte) []byte { return nil }
	change(t, a, func([]byte) []byte {
		done, err := b.Change(nothing)
		require.NoError(t, err)
		require.False(t, done)
		return nil
	})
	change(t, b, nothing)
	require.NoError(t, a.Close())
	require.NoError(t, a.Close(), "a second close does nothing")
	_, err = a.Change(nothing)
	require.Error(t, err)
	require.NoError(t, b.Close())
}

func BenchmarkShared(b *testing.B) {
	s, err := OpenShared(filepath.Join(b.TempDir(), "one"))
	require.NoError(b, err)
	defer s.Close()
	mem := make([]byte, 8<<10)
	for b.Loop() {
		change(b, s, func([]byte) []byte { return mem })
	}
}
