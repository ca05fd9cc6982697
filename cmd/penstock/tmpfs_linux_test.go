package main

import (
	"os"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// mayMount reports whether this process may mount a small disk.
func mayMount() bool {
	dir, err := os.MkdirTemp("", "penstock-mount-*")
	if err != nil {
		return false
	}
	defer os.Remove(dir)
	return mount(dir, "64k") == nil && syscall.Unmount(dir, 0) == nil
}

func mount(dir, size string) error { return syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size) }

// scriptTmpfs mounts a small disk. Usage: tmpfs FOLDER SIZE.
func scriptTmpfs(ts *testscript.TestScript, _ bool, args []string) {
	dir := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(dir, 0o700))
	ts.Check(mount(dir, args[1]))
	ts.Defer(func() { _ = syscall.Unmount(dir, 0) })
}
