//go:build !linux

package main

import "github.com/rogpeppe/go-internal/testscript"

func mayMount() bool { return false }

// scriptTmpfs fails: there are no small disks on this system.
func scriptTmpfs(ts *testscript.TestScript, _ bool, _ []string) { ts.Fatalf("no small disks here") }
