//go:build !unix

package main

// forbidCore does nothing: these systems keep no dump unless an administrator has
// asked for it.
func forbidCore() error { return nil }
