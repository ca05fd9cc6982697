//go:build !unix

package main

// forbidCore does nothing: these systems write no core dump unless an administrator has enabled it.
func forbidCore() error { return nil }
