//go:build unix

package main

import "syscall"

// forbidCore has no dump of this process's memory be kept, come what may: its
// tokens and keys would be in it. // Invariant 5
func forbidCore() error { return syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) }
