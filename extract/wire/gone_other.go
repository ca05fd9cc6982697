//go:build !unix

package wire

// processGone reports whether a process is known to have ended: never, on this system.
func processGone(int) bool { return false }

// pidNamespace returns 0: process ids cannot be compared with those of other processes.
func pidNamespace() int64 { return 0 }
