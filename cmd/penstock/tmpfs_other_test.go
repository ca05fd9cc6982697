//go:build !linux

package main

import "github.com/rogpeppe/go-internal/testscript"

func mayMount() bool { return false }

// scriptTmpfs can make no small disk here.
func scriptTmpfs(ts *testscript.TestScript, _ bool, _ []string) { ts.Fatalf("no small disks here") }
