//go:build unix

package main

import "syscall"

// forbidCore disables core dumps of this process: they would contain its tokens and keys. // Invariant 5
func forbidCore() error { return syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) }
