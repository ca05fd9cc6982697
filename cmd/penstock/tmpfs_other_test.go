//go:build !linux

package main

import "github.com/rogpeppe/go-internal/testscript"

func mayMount() bool { return false }

// scriptTmpfs fails, because the tests cannot mount a small disk on this system.
func scriptTmpfs(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Fatalf("tests cannot mount a small disk on this system")
}
