//go:build !unix

package wire

// processGone is never sure on this system.
func processGone(int) bool { return false }

// pidNamespace returns 0: process ids cannot be compared with those of other processes.
func pidNamespace() int64 { return 0 }
