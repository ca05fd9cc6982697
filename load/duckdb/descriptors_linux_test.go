//go:build cgo && duckdb_arrow

package duckdb

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// freeDescriptors is the name of an environment variable. If it is set to a number, the test program opens a
// destination while only this number of file descriptors is free.
const freeDescriptors = "PENSTOCK_TEST_FREE_DESCRIPTORS"

// TestOpenWithFewDescriptors opens a destination while 0 to 39 file descriptors are free. With each number, Open must
// succeed or return an error that names the cause. The engine must not end the process, as it would if its own start
// failed.
func TestOpenWithFewDescriptors(t *testing.T) {
	if text := os.Getenv(freeDescriptors); text != "" {
		openWithDescriptors(t, text)
		return
	}
	t.Parallel()
	self, err := os.Executable()
	require.NoError(t, err)
	opened, refused := 0, 0
	stride := 1
	if testing.Short() {
		stride = 3
	}
	for free := 0; free < 40; free += stride {
		cmd := exec.Command(self, "-test.run=^TestOpenWithFewDescriptors$", "-test.v")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", freeDescriptors, free), "TMPDIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%d free descriptors: %s", free, out)
		switch text := string(out); {
		case strings.Contains(text, "opened"):
			opened++
		case strings.Contains(text, "too many open files"):
			refused++
		default:
			t.Errorf("%d free descriptors: %s", free, text)
		}
	}
	require.Positive(t, opened)
	require.Positive(t, refused)
}

func openWithDescriptors(t *testing.T, text string) {
	free, err := strconv.Atoi(text)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "warehouse.duckdb")
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 256, Max: 256}))
	var held []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		held = append(held, f)
	}
	for _, f := range held[:free] {
		require.NoError(t, f.Close())
	}
	d, err := Open(context.Background(), Options{Path: path, MemoryLimit: "1GB", Threads: 1})
	for _, f := range held[free:] {
		require.NoError(t, f.Close())
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("opened")
	require.NoError(t, d.Close())
}
