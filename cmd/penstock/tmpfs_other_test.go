//go:build !linux

package main

import "github.com/rogpeppe/go-internal/testscript"

func mayMount() bool { return false }

// scriptTmpfs fails, because on this system the tests cannot mount a small disk.
func scriptTmpfs(ts *testscript.TestScript, _ bool, _ []string) { ts.Fatalf("no small disks here") }
